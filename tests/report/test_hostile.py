"""Text that wants to be obeyed: in drafts, problems and names it is shown, on pages and terminals alike."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
import yaml

from agon.cli import main
from agon.report.escape import escape, tame
from agon.report.rows import open_source
from agon.report.viewer import render
from agon.rundir import read_bouts

from . import scenes
from .studies import make_study
from .test_viewer import Elements, one_tame_bout, unpack

HOSTILE = {
    "closing tag": "</script><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "separators": "one\u2028two\u2029three\x85four",
    "direction": "4\u202e21\u202c \u2066x\u2069 \u200b\ufeff",
    "terminal": "\x1b[31mred\x1b]0;title\x07\x1b[2J\x9b1m",
    "one long line": "x" * 1_000_000,
    "lone surrogates": "a \ud800 b \udfff c",
    "NUL": "a\x00b\x01",
}
NAME = "\x1b[2Jx|y</td><script>alert(1)</script>![p](http://h/p.png)\u202e"


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_completion_is_shown_as_it_was_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HOSTILE[kind]
    bout = {kind: (f"<think>{text}</think>{text} and so on<answer>{text[:99]}</answer>", text[:99])}
    monkeypatch.setattr(scenes, "BOUTS", bout)
    monkeypatch.setattr(scenes, "HOSTILE", text)
    run = scenes.make_run(tmp_path).path
    assert main(["view", str(run)]) == 0
    page = (run / "report.html").read_bytes().decode("utf-8")
    row, shown = read_bouts(run).to_pylist()[0], unpack(page, "block-0")[0]
    assert "".join(shown["draft"][:2]) == row["draft_text"]
    assert shown["peek"] == row["peek"]
    assert unpack(page, "index")["problems"][0][1] == row["question"]
    assert text not in page
    assert [tag for tag, _ in Elements(page).found] == [tag for tag, _ in Elements(render(one_tame_bout())).found]
    assert printable(capsys.readouterr().out)


def printable(text: str) -> bool:
    return not any(unicodedata.category(letter) in {"Cc", "Cf", "Cs"} for letter in text.replace("\n", ""))


def test_records_with_lone_surrogates_are_shown(tmp_path: Path) -> None:
    turn = {"policy": "a", "version": "a@1", "text": "\ud800", "reason": "wrong", "correct": False}
    record = {"problem": "p", "sample": 0, "question": "\udfff", "answer": "4", "final": turn}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    page = render(open_source(tmp_path / "a.jsonl"))
    assert page.encode("utf-8")
    assert unpack(page, "block-0")[0]["draft"][1] == "?"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with results whose own name, base and data are hostile."""
    path = make_study(tmp_path, {"agon": 1}, base=NAME, data=NAME)[0]
    path = path.rename(tmp_path / NAME.replace("/", "-"))
    (path / "evals" / "held_out" / "ab.json").write_text("{torn")
    return path


def test_hostile_names_are_neither_markup_nor_orders(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert printable(capsys.readouterr().out)
    page = (run / "report" / "report.md").read_text()
    assert printable(page)
    assert "<script" not in page
    assert not re.search(r"(?<!\\)\]\(http", page)
    assert "Left out" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_a_card_of_hostile_names_is_plain(run: Path) -> None:
    from agon.report.card import card
    from agon.report.collect import read_run
    from tests.cli.test_export import INFO

    text = card(read_run(run), INFO, "peft")
    assert printable(text)
    assert "<script" not in text
    assert yaml.safe_load(text.split("---")[1])["base_model"] == "agon:tiny"


@pytest.mark.parametrize("text", HOSTILE.values())
def test_words_are_tamed(text: str) -> None:
    assert printable(tame(text))
    assert "<" not in escape(text).replace("&lt;", "")
    assert tame("plain α → 4, [1, 2] (x)") == "plain α → 4, [1, 2] (x)"
