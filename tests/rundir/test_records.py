"""Records on disk: typed, strict, and read with an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agon.errors import RunDirError
from agon.rundir.records import Mark, RunState, StepRecord, read_record, write_record
from agon.types import Policy, Version
from tests.training.helpers.records import POINT, record


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    state = RunState(versions={Policy.A: Version("a@1-x")}, points=(POINT,))
    write_record(tmp_path / "state.json", state)
    back = read_record(tmp_path / "state.json", RunState, fix="")
    assert back == state
    assert type(back.versions[Policy.A]) is Version


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "cannot read"),
        ("{", "cannot read"),
        ("{}", "KeyError"),
        ('{"schema": 9, "bytes": 3}', "schema 9"),
        ('{"schema": 1, "bytes": "many"}', "bytes: Input should be a valid integer"),
        ('{"schema": 1, "byts": 3}', "byts: Extra inputs"),
        ('{"schema": 1, "bytes": "3"}', "bytes: Input should be a valid integer"),
        ('{"schema": 1, "bytes": true}', "bytes: Input should be a valid integer"),
        ('{"schema": 1, "bytes": 3.0}', "bytes: Input should be a valid integer"),
        ('{"schema": 1, "bytes": NaN}', "cannot read"),
        ('{"schema": 1, "bytes": 1e400}', "cannot read"),
        ('{"schema": 1, "bytes": ' + "9" * 5000 + "}", "cannot read"),
        ("[" * 100_000, "cannot read"),
    ],
)
def test_what_is_not_the_record_is_refused_with_what_to_type(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "mark.json").write_text(text)
    with pytest.raises(RunDirError, match=reason) as refused:
        read_record(tmp_path / "mark.json", Mark, fix="restore it")
    assert refused.value.fix


def test_a_record_cannot_be_changed_and_has_no_unknown_key() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        record(0).step = 1  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra"):
        StepRecord.model_validate(record(0).model_dump() | {"odd": 1})
