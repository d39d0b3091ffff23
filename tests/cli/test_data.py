"""`agon data`: what it prints, and its exit code."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from agon.cli import main
from agon.cli.parser import Parser
from agon.config import Source
from agon.config.models import PRESETS
from agon.data import load
from agon.errors import AgonError, InputError
from tests.data.helpers import Exact, code_row, numbered, rows_of, write_jsonl

CONFIG = """
schema: 1
arm: agon
model: {{name: "agon:tiny"}}
data:
  train: {{path: "{path}", take: 20}}
  dev: {{path: "{path}", take: 5}}
  held_out: {{path: "{path}", take: 10}}
verifier: math
"""


@pytest.fixture
def agon_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run `agon data ...` with the exact verifier; gives the exit code and what was printed."""
    command = importlib.import_module("agon.cli.data")
    judge = Exact()
    monkeypatch.setattr("agon.verify.load_verifier", lambda *_, **__: judge, raising=False)

    def call(*words: str) -> tuple[int, str]:
        parser = Parser(prog="agon data")
        command.add_arguments(parser)
        args: argparse.Namespace = parser.parse(list(words))
        code: int = command.run(args)
        assert args.action != "check" or judge.closed
        return code, capsys.readouterr().out

    return call


def test_check_prints_a_file_and_its_first_problems(tmp_path: Path, agon_data: Callable[..., tuple[int, str]]) -> None:
    rows = [{"problem": f"q {n} \x1b[2J\nnew line", "answer": n} for n in range(5)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    code, text = agon_data("check", path, "columns.question=problem", "--rows", "2")
    assert code == 0
    assert "5 problems" in text
    assert text.count("answer: ") == 2
    assert "\x1b" not in text


def test_json_holds_counts_lengths_and_rows(tmp_path: Path, agon_data: Callable[..., tuple[int, str]]) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(4)) + rows_of(numbered(1)))
    _, text = agon_data("check", path, "--rows", "3", "--json")
    (facts,) = json.loads(text)["parts"].values()
    assert (facts["problems"], facts["rows"], facts["duplicates"], len(facts["first"])) == (4, 5, 1, 3)


def test_check_passes_or_fails_by_its_exit_code(tmp_path: Path, agon_data: Callable[..., tuple[int, str]]) -> None:
    good = write_jsonl(tmp_path / "good.jsonl", rows_of(numbered(10)))
    bad = write_jsonl(tmp_path / "bad.jsonl", [*rows_of(numbered(10)), {"question": "odd", "answer": "?1"}])
    assert agon_data("check", good)[0] == 0
    code, text = agon_data("check", bad)
    assert code == 1
    assert "10 of 11 accepted" in text
    assert "bad_gold  ?1  not a number" in text


def test_answers_on_which_the_verifier_failed_are_one_line_per_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(30)))
    judge = "def boom(problem, completion):\n    return len(problem.answer) > 1 and {}['missing']\n"
    (tmp_path / "judge.py").write_text(judge)
    assert main(["data", "check", path, "--verifier", "judge.py:boom"]) == 1
    rows = capsys.readouterr().out.split("accepted by")[1].splitlines()[1:]
    assert sum("infra" in row for row in rows) == 0
    assert rows[0].strip().startswith("27 have no verdict: KeyError: 'missing' (judge.py:2); the first is ")
    assert rows[1].endswith("correct judge.py:boom, then run the same command again")
    assert sum(" wrong " in row for row in rows) == 3


def test_check_of_a_config_covers_its_splits_and_their_overlap(
    tmp_path: Path, agon_data: Callable[..., tuple[int, str]]
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.format(path=path))
    code, text = agon_data("check", str(config), "--json")
    found = json.loads(text)
    assert code == 0
    assert {name: part["problems"] for name, part in found["parts"].items()} == {"train": 20, "dev": 5, "held_out": 10}
    assert found["overlap"] == {"of": 10, "problems": []}
    _, text = agon_data("check", f"{config}:dev", "data.dev.take=7", "--json")
    assert json.loads(text)["parts"]["dev"]["problems"] == 7


def test_overlap_is_said_to_come_from_templates_too(tmp_path: Path, agon_data: Callable[..., tuple[int, str]]) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen"
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": f"{words} {n}?", "answer": str(n)} for n in range(50)])
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.format(path=path))
    code, text = agon_data("check", str(config))
    assert code == 0
    assert "overlap: 10 of 10" in text
    assert "template" in text
    assert "docs/data.md" in text


def test_check_of_code_problems_needs_no_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = importlib.import_module("agon.cli.data")
    monkeypatch.setattr("agon.verify.load_verifier", lambda *_: pytest.fail("started a verifier"), raising=False)
    path = write_jsonl(tmp_path / "train.jsonl", [code_row()])
    parser = Parser(prog="agon data")
    command.add_arguments(parser)
    assert command.run(parser.parse(["check", "codecontests-easy", f"path={path}"])) == 0


def test_split_prints_hashes_and_writes_files_that_can_be_read_again(
    tmp_path: Path, agon_data: Callable[..., tuple[int, str]]
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    words = ["split", path, "--held-out", "10", "--dev", "5", "--seed", "3", "-o", str(tmp_path / "out"), "--json"]
    _, text = agon_data(*words)
    parts = json.loads(text)["parts"]
    assert [parts[name]["problems"] for name in ("train", "dev", "held_out")] == [35, 5, 10]
    again = load(Source(path=str(tmp_path / "out" / "held_out.jsonl")))
    assert len(again) == 10
    with pytest.raises(InputError, match="already exists"):
        agon_data(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "gsm9k"),
        ("show", "tabletop", "options.family"),
        ("show", "tabletop", "tke=5"),
        ("show", "tabletop", "take=0"),
        ("show", "absent.yaml"),
        ("split", "tabletop"),
        ("split", "tabletop", "--dev", "0", "--held-out", "5"),
        ("split", "run.yaml:dev"),
    ],
)
def test_bad_input_is_reported_with_a_fix(words: tuple[str, ...], agon_data: Callable[..., tuple[int, str]]) -> None:
    with pytest.raises(AgonError) as caught:
        agon_data(*words)
    assert caught.value.exit_code == 2
    assert caught.value.fix


@pytest.mark.parametrize(
    ("words", "near"),
    [(("gsm9k",), "did you mean gsm8k?"), (("tabletop", "optoins.family=mixed"), "unknown key; did you mean options?")],
)
def test_a_misspelt_preset_or_field_is_answered_with_the_nearest(
    words: tuple[str, ...], near: str, agon_data: Callable[..., tuple[int, str]]
) -> None:
    with pytest.raises(AgonError, match=re.escape(near)):
        agon_data("check", *words)


def test_a_file_that_does_not_exist_is_answered_with_those_that_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agon_data: Callable[..., tuple[int, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "mine.jsonl", rows_of(numbered(3)))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(AgonError, match="neither a preset nor a file") as caught:
        agon_data("check", "nope.jsonl")
    assert caught.value.fix.startswith("name one of: mine.jsonl; or a preset: ")
    assert all(preset in caught.value.fix for preset in PRESETS)


def test_an_audit_of_a_config_is_that_of_its_environment(tmp_path: Path) -> None:
    from agon.cli.audit_config import words_for

    config = tmp_path / "run.yaml"
    source = '{env: "verifiers:sums", options: {terms: 3}, template: "#### {}", take: 2}'
    config.write_text(
        "arm: agon\nmodel: {name: x}\nverifier: environment\n"
        f"data: {{train: {source}, dev: {source}, held_out: {source}}}\n"
    )
    told = ["audit", "verifiers:sums", "--option", "terms=3", "--template", "#### {}", "--take", "2"]
    assert words_for(["audit", str(config), "--take", "2"]) == told
    assert words_for(["audit", "--take", "2", str(config)]) == [told[0], *told[-2:], *told[1:-2]]
    assert words_for(["audit", "math", "--rows", "x.jsonl"]) == ["audit", "math", "--rows", "x.jsonl"]
    config.write_text(config.read_text().replace(source, "{preset: gsm8k, take: 2}").replace("environment", "math"))
    with pytest.raises(InputError, match="no environment"):
        words_for(["audit", str(config)])


def test_a_date_beside_a_problem_is_written_as_text(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1)] * 3
    rows = {"question": ["a b?", "c d?", "e f?"], "answer": ["1", "2", "3"], "day": days}
    parquet.write_table(pyarrow.table(rows), tmp_path / "d.parquet")
    words = ["--held-out", "1", "--dev", "1", "-o", str(tmp_path / "out"), "columns.day=day"]
    assert main(["data", "split", str(tmp_path / "d.parquet"), *words]) == 0
    assert json.loads((tmp_path / "out" / "dev.jsonl").read_text())["meta"] == {"day": "2024-01-01"}


def test_further_columns_of_a_file_are_read_again_from_what_was_split(tmp_path: Path) -> None:
    rows = [{"id": 100 + n, "problem": f"{n} + 1?", "solution": str(n + 1), "lvl": n} for n in range(8)]
    path = write_jsonl(tmp_path / "own.jsonl", rows)
    columns = {"question": "problem", "answer": "solution", "level": "lvl", "id": "id"}
    words = [str(path), *(f"columns.{ours}={theirs}" for ours, theirs in columns.items()), "--held-out=2", "--dev=2"]
    assert main(["data", "split", *words, "-o", str(tmp_path / "out")]) == 0
    again = load(Source(path=str(tmp_path / "out" / "train.jsonl"), columns={"level": "level", "id": "id"}))
    before = {problem.id: problem.meta for problem in load(Source(path=str(path), columns=columns))}
    assert len(again) == 4
    assert all(problem.meta == before[problem.id] for problem in again)
