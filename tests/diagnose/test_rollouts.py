"""Texts of logged groups: what was asked and answered stands beside its rewards, whoever wrote the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agon.diagnose import Columns
from agon.diagnose.lines import is_foreign
from agon.diagnose.rollouts import plain_text, read_rollouts
from agon.errors import DataError
from tests.report.helpers import make_match, make_study

from .test_read import jsonl, trl_rows


def trl(folder: Path) -> Path:
    """A folder as TRL leaves it, with prompts as chat messages."""
    (folder / "completions").mkdir(parents=True)
    for step in (1, 2):
        rows = trl_rows(step, "What is 1 + 1?", [1, 0], [1, 1]) + trl_rows(step, "What is 2 + 2?", [0, 0], [0, 0])
        pq.write_table(pa.Table.from_pylist(rows), folder / "completions" / f"completions_{step:05d}.parquet")
    return folder


def verl(folder: Path, steps: tuple[int, ...] = (9, 10)) -> Path:
    """A folder as verl leaves it: one file per step, named by its number."""
    folder.mkdir()
    for step in steps:
        asked = [f"system\nBe brief.\nuser\nWhat is {n} + {n}?\nassistant\n" for n in (1, 2)]
        rows = [
            {"input": text, "output": f"try {k}", "gts": "2", "score": float(k), "step": step}
            for text in asked
            for k in range(2)
        ]
        jsonl(folder / f"{step}.jsonl", rows)
    return folder


def test_a_trl_log_shows_messages_as_text(tmp_path: Path) -> None:
    found = read_rollouts([trl(tmp_path)])
    assert [texts.prompt for texts in found.texts] == ["What is 1 + 1?", "What is 2 + 2?"] * 2
    assert found.texts[0].completions == ("try 0", "try 1")
    assert [len(group) for group in found.log.groups] == [2, 2, 2, 2]
    assert found.log.terms == ("accuracy_reward", "think_format")


def test_a_verl_log_is_shown_in_the_order_of_its_steps(tmp_path: Path) -> None:
    found = read_rollouts([verl(tmp_path / "rollouts")])
    assert found.log.steps == (9, 9, 10, 10)
    assert found.texts[0].gold == "2"
    assert found.texts[0].completions == ("try 0", "try 1")


def test_titles_leave_out_what_all_prompts_begin_with(tmp_path: Path) -> None:
    assert read_rollouts([verl(tmp_path / "rollouts")]).titles()[:2] == ["1 + 1? assistant", "2 + 2? assistant"]


def test_a_log_without_prompts_is_named_by_its_groups(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [{"problem_id": "p7", "reward": k} for k in range(2)])
    found = read_rollouts([path])
    assert found.titles() == ["p7"]
    assert found.texts[0].completions == ("", "")


def test_columns_of_texts_can_be_named(tmp_path: Path) -> None:
    rows = [{"uid": 1, "asked": "why", "said": f"{k}", "truth": "2", "reward": k} for k in range(2)]
    named = Columns(prompt="asked", completion="said", gold="truth")
    (texts,) = read_rollouts([jsonl(tmp_path / "log.jsonl", rows)], named).texts
    assert (texts.prompt, texts.gold, texts.completions) == ("why", "2", ("0", "1"))
    with pytest.raises(DataError, match="no column named nothing"):
        read_rollouts([tmp_path / "log.jsonl"], Columns(prompt="nothing"))


def test_a_numeric_column_named_like_a_gold_is_a_reward(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": "p", "completion": "c", "answer": float(k), "advantage": 0.0} for k in range(2)]
    found = read_rollouts([jsonl(tmp_path / "log.jsonl", rows)])
    assert found.log.terms == ("answer",)
    assert found.texts[0].gold == ""


def test_steps_that_are_not_there_are_refused_with_those_that_are(tmp_path: Path) -> None:
    folder = verl(tmp_path / "rollouts")
    assert read_rollouts([folder], keep=lambda step: step == 10).log.steps == (10, 10)
    with pytest.raises(DataError, match="no rows of these steps") as refused:
        read_rollouts([folder], keep=lambda step: step > 99)
    assert refused.value.fix.endswith("--steps 9:10")
    path = jsonl(tmp_path / "log.jsonl", [{"uid": 1, "reward": 1}])
    with pytest.raises(DataError, match="no column of steps"):
        read_rollouts([path], keep=lambda step: True)


def test_a_log_that_no_browser_would_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.diagnose.rollouts.CHARACTERS", 50)
    with pytest.raises(DataError, match="too many for one page") as refused:
        read_rollouts([verl(tmp_path / "rollouts")])
    assert "--steps" in refused.value.fix


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, ""),
        ([{"role": "assistant", "content": "one"}], "one"),
        ([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}], "[system]\na\n\n[user]\nb"),
        ([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}], "[image]\nwhat?"),
        ([{"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}], '[{"name": "f"}]'),
        ({"any": "thing"}, '{"any": "thing"}'),
        ([], "[]"),
    ],
)
def test_any_value_is_a_text(value: Any, text: str) -> None:
    assert plain_text(value) == text


def test_logs_of_others_are_told_from_our_own(tmp_path: Path) -> None:
    run, study = make_match(tmp_path).path, make_study(tmp_path / "study", {"agon": 1})[0]
    theirs = [trl(tmp_path / "trl"), tmp_path / "trl" / "completions", verl(tmp_path / "verl"), tmp_path / "table.json"]
    (tmp_path / "table.json").write_text(json.dumps({"columns": ["prompt", "reward"], "data": [["p", 1.0]]}))
    (tmp_path / "notes.md").write_text("# notes")
    (tmp_path / "broken.parquet").write_text("no")
    (tmp_path / "broken.jsonl").write_text("{")
    result = study / "evals" / "held_out" / "cascade.json"
    ours = [run, run / "bouts", next((run / "bouts").glob("*.parquet")), result, tmp_path / "nowhere"]
    damaged = [tmp_path / name for name in ("broken.parquet", "broken.jsonl")]
    assert all(map(is_foreign, [*theirs, *damaged])), "nothing says that a damaged file is ours"
    assert not any(map(is_foreign, [*ours, tmp_path / "notes.md"]))
