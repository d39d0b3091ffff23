"""Text that wants to be obeyed: in drafts, problems and names it is shown, on pages and terminals alike."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
import yaml

from agon.cli import main
from agon.report.card import card
from agon.report.collect import read_run
from agon.report.rows import open_source
from agon.report.viewer import render
from agon.rundir import read_bouts

from .helpers import INFO, make_match, make_study
from .test_viewer import Elements, one_plain_bout, unpack

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
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HOSTILE[kind]
    bout = {kind: (f"<think>{text}</think>{text} and so on<answer>{text[:99]}</answer>", text[:99])}
    run = make_match(tmp_path, bouts=bout, text=text).path
    assert main(["view", str(run)]) == 0
    page = (run / "match.html").read_bytes().decode("utf-8")
    row, shown = read_bouts(run).to_pylist()[0], unpack(page, "block-0")[0]
    assert "".join(shown["draft"][:2]) == row["draft_text"]
    assert shown["peek"] == row["peek"]
    assert unpack(page, "index")["problems"][0][1] == row["question"]
    assert text not in page
    assert [tag for tag, _ in Elements(page).found] == [tag for tag, _ in Elements(render(one_plain_bout())).found]
    assert printable(capsys.readouterr().out)


def printable(text: str) -> bool:
    return not any(unicodedata.category(letter) in {"Cc", "Cf", "Cs"} for letter in text.replace("\n", ""))


def test_a_run_whose_name_is_not_unicode_is_shown(tmp_path: Path) -> None:
    bout = {"plain": ("<think>t</think>so<answer>4</answer>", "4")}
    run = make_match(tmp_path, bouts=bout, text="why").path.rename(tmp_path / "run\udcff")
    assert main(["view", str(run)]) == 0
    assert "run\ufffd" in (run / "match.html").read_text(encoding="utf-8")


def test_an_evaluation_with_lone_surrogates_is_shown(tmp_path: Path) -> None:
    row = {"problem_id": "p", "question": "\udfff", "answer": "4", "index": 0, "drafter": "a"}
    draft = {"text": "\ud800", "opened": False, "version": "a@000001-0", "prompt_tokens": 1, "tokens": 1}
    draft |= {"finish": "stop", "reason": "wrong", "detail": "", "correct": False, "well_formed": False}
    row |= {f"draft_{name}": value for name, value in draft.items()}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    page = render(open_source(tmp_path / "a.jsonl"))
    assert page.encode("utf-8")
    assert unpack(page, "block-0")[0]["draft"][1] == "?"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with results whose own name, base and data are hostile."""
    path = make_study(tmp_path, {"agon": 1}, base=NAME, data=NAME.replace("/", "-"))[0]
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
    assert "## Skipped" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_a_card_of_hostile_names_is_plain(run: Path) -> None:
    text = card(read_run(run), INFO, "peft")
    assert printable(text)
    assert "<script" not in text
    assert set(yaml.safe_load(text.split("---")[1])) == {"library_name", "tags"}
