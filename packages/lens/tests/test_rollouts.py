"""Texts of logged groups: what was asked and answered stands beside its rewards, whoever wrote the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agon_lens import Columns
from agon_lens.errors import LensError
from agon_lens.files import is_foreign
from agon_lens.logs import StepRange, read_rollouts
from agon_lens.texts import plain_text
from lens_logs import jsonl, trl, verl


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
    with pytest.raises(LensError, match="no column named nothing"):
        read_rollouts([tmp_path / "log.jsonl"], Columns(prompt="nothing"))


def test_steps_that_are_not_there_are_refused_with_those_that_are(tmp_path: Path) -> None:
    folder = verl(tmp_path / "rollouts")
    assert read_rollouts([folder], steps=StepRange(10, 10)).log.steps == (10, 10)
    with pytest.raises(LensError, match="no rows of these steps") as refused:
        read_rollouts([folder], steps=StepRange(99))
    assert refused.value.fix.endswith("--steps 9:10")
    path = jsonl(tmp_path / "log.jsonl", [{"uid": 1, "reward": 1}])
    with pytest.raises(LensError, match="no column of steps"):
        read_rollouts([path], steps=StepRange())


def test_a_log_that_no_browser_would_open_is_shown_in_part_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = verl(tmp_path / "rollouts", steps=tuple(range(1, 9)))
    whole = read_rollouts([folder])
    monkeypatch.setattr("agon_lens.logs.CHARACTERS", sum(whole.log.characters) // 3)
    part = read_rollouts([folder])
    assert len(part.log.groups) == len(whole.log.groups) == 16, "the findings count all"
    assert part.shown == tuple(range(0, 16, 4))
    assert part.texts == tuple(whole.texts[k] for k in part.shown)
    assert "4 of 16 groups" in part.log.notes[-1]
    assert "--steps" in part.log.notes[-1]


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


@pytest.mark.parametrize(
    ("text", "steps"), [("4", StepRange(4, 4)), ("2:9", StepRange(2, 9)), (":9", StepRange(0, 9)), ("3:", StepRange(3))]
)
def test_steps_are_parsed(text: str, steps: StepRange) -> None:
    assert StepRange.parse(text) == steps


def test_the_last_line_of_a_message_is_its_fix() -> None:
    with pytest.raises(LensError) as refused:
        read_rollouts("nowhere.jsonl")
    assert refused.value.__notes__ == [f"fix: {refused.value.fix}"]


def test_files_of_any_trainer_are_logs_also_damaged_ones(tmp_path: Path) -> None:
    texts = {
        "table.json": json.dumps({"columns": ["prompt", "reward"], "data": [["p", 1.0]]}),
        "chat.jsonl": json.dumps({"system": "Be brief.", "prompt": "p", "reward": 1.0}),
        "broken.parquet": "no",
        "broken.jsonl": "{",
        "notes.md": "# notes",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    logs = [trl(tmp_path / "trl"), tmp_path / "trl" / "completions", verl(tmp_path / "verl")]
    logs += [tmp_path / name for name in texts if name != "notes.md"]
    assert all(map(is_foreign, logs))
    assert not any(is_foreign(tmp_path / name) for name in ("notes.md", "empty", "nowhere", "nowhere.jsonl"))
