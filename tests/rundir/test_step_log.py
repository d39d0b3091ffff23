"""The logs of a run: no step lost, none told twice, a torn line is no line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import RunDirError
from agon.rundir.records import Mark, StepRecord, Timing
from agon.rundir.step_log import StepLog
from agon.types import Policy
from tests.rundir.helpers.runs import record


@pytest.fixture
def log(tmp_path: Path) -> StepLog[StepRecord]:
    log = StepLog(tmp_path / "steps.jsonl", StepRecord)
    for step in range(5):
        log.append(record(step))
    return log


def steps(log: StepLog[StepRecord]) -> list[int]:
    return [entry.step for entry in log.records()]


def test_a_torn_last_line_is_passed_over_and_then_replaced(log: StepLog[StepRecord]) -> None:
    whole = log.path.read_bytes()
    for cut in range(whole[:-1].rfind(b"\n") + 1, len(whole)):
        log.path.write_bytes(whole[:cut])
        assert steps(log) == [0, 1, 2, 3]
        log.append(record(4))
        assert log.path.read_bytes() == whole


def test_a_last_line_whose_front_never_reached_the_disk_is_torn_too(log: StepLog[StepRecord]) -> None:
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20] + bytes(19) + b"\n")
    assert steps(log) == [0, 1, 2, 3]
    log.append(record(4))
    assert log.path.read_bytes() == whole


def test_damage_inside_a_log_is_an_error_and_never_a_gap(log: StepLog[StepRecord]) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join([*lines[:2], lines[2][:9] + b"\n", *lines[3:]]))
    with pytest.raises(RunDirError, match="line 3 is damaged"):
        log.records()


@pytest.mark.parametrize("step", [0, 4, 6, 99])
def test_a_step_that_does_not_follow_is_refused(step: int, log: StepLog[StepRecord]) -> None:
    with pytest.raises(RunDirError, match=f"ends at step 4: step {step} cannot follow"):
        log.append(record(step))
    assert steps(log) == [0, 1, 2, 3, 4]


def test_rewinding_takes_a_log_back_byte_for_byte(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl", StepRecord)
    marks, states = [log.mark()], [b""]
    for step in range(4):
        log.append(record(step))
        marks.append(log.mark())
        states.append(log.path.read_bytes())
    for mark, state in reversed(list(zip(marks, states, strict=True))):
        log.rewind(mark)
        assert log.path.read_bytes() == state


def test_rewinding_to_nothing_empties_the_log(log: StepLog[StepRecord], tmp_path: Path) -> None:
    log.rewind(Mark())
    assert log.records() == []
    StepLog(tmp_path / "never-written.jsonl", StepRecord).rewind(Mark())


def test_a_log_that_lost_steps_is_refused(log: StepLog[StepRecord]) -> None:
    mark = log.mark()
    lines = log.path.read_bytes().splitlines(keepends=True)
    for kept in (lines[:3], [], [*lines[:2], *lines[3:], lines[4]], [*lines[:4], lines[3]]):
        log.path.write_bytes(b"".join(kept))
        with pytest.raises(RunDirError, match="lacks steps"):
            log.rewind(mark)


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl", StepRecord)
    log.append(record(0, loss=float("nan")))
    [back] = log.records()
    assert back.update == {Policy.A: {"loss": None}}


def test_a_line_that_is_not_a_record_is_damage(log: StepLog[StepRecord]) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join([lines[0], b'{"step": 1, "standalone": 3}\n', *lines[2:]]))
    with pytest.raises(RunDirError, match="line 2 is damaged"):
        log.records()


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(st.dictionaries(st.text(), FINITE, max_size=3), max_size=4))
def test_any_record_comes_back_as_it_was(
    values: list[dict[str, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = StepLog(tmp_path_factory.mktemp("any") / "timings.jsonl", Timing)
    records = [
        Timing(step=step, seconds=value, tokens_per_second=None, memory={}, canary={})
        for step, value in enumerate(values)
    ]
    for entry in records:
        log.append(entry)
    assert log.records() == records


def test_timings_of_an_earlier_version_are_read_without_what_it_measured_in_vain(tmp_path: Path) -> None:
    slope = {"slope": 0.9, "error": None, "tokens": 512, "resolved": False}
    old = {"step": 0, "seconds": {"play": 1.5}, "tokens_per_second": None, "memory": {}, "canary": {"a@0-x": 0.05}}
    (tmp_path / "timings.jsonl").write_text(json.dumps({**old, "slopes": {"a before": slope}}) + "\n")
    (timing,) = StepLog(tmp_path / "timings.jsonl", Timing).records()
    assert (timing.canary, timing.attested) == ({"a@0-x": 0.05}, 0)
