"""Logs: no step or bout lost, none told twice, a torn line is no line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import RunDirError
from agon.rundir.bouts import bout_of, row
from agon.rundir.log import BoutLog, StepLog, key
from agon.rundir.records import Mark, StepRecord, Timing
from agon.types import Bout, Policy, Prompt
from tests.rundir.helpers.runs import record
from tests.rundir.test_bouts import bout


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


def bare(given: Bout) -> Bout:
    """What a reader gets back: no prompts, rewards or advantages."""
    rollouts = [replace(each, prompt=Prompt(()), reward=None, advantage=None) for each in given.rollouts]
    return replace(given, draft=rollouts[0], challenge=rollouts[1] if len(rollouts) > 1 else None)


def test_one_codec_serves_training_and_evaluation() -> None:
    for one in (bout(), Bout(bout().draft), replace(bout(), other_peek="theirs")):
        values = row(one, step=3, arm="agon") | {"other_peek": one.other_peek}
        assert bout_of(values) == bare(one)


def test_bouts_come_back_in_order_and_the_first_of_two_counts(tmp_path: Path) -> None:
    log = BoutLog(tmp_path / "ab.jsonl")
    one = replace(bout("one"), rival=None, other_peek="theirs")
    two = replace(one, draft=replace(one.draft, index=1, seconds=1.234))
    log.append([one, two], "ab")
    log.append([replace(one, peek="changed")], "ab")
    back = log.read()
    assert list(back) == [key(one), key(two)]
    assert back[key(one)] == bare(one)
    assert back[key(two)].draft.seconds == 1.234


def test_a_torn_last_line_is_skipped_and_then_cut(tmp_path: Path) -> None:
    log = BoutLog(tmp_path / "ab.jsonl")
    log.append([bout()], "ab")
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole[:-5])
    assert len(log.read()) == 1
    log.truncate()
    assert log.path.read_bytes() == whole
