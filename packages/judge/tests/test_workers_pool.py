"""Workers hang, crash, use too much memory and are killed; the outcome of a job depends on the job alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agon_judge.errors import JudgeError
from agon_judge.workers.pool import Limits, WorkerPool
from judge_helpers import gone, wait_until
from worker_checks import CHECK


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    shared = WorkerPool(CHECK, Limits(workers=2, deadline=0.3, memory=1 << 30))
    yield shared
    shared.close()


def test_a_job_that_hangs_is_a_timeout_and_its_neighbours_are_not(pool: WorkerPool) -> None:
    futures = [pool.submit(deed, str(number)) for number, deed in enumerate(["work", "hang", "work", "work", "work"])]
    assert [future.result(60).name for future in futures] == ["correct", "timeout", "correct", "correct", "correct"]


@pytest.mark.parametrize("deed", ["segfault", "exit"])
def test_a_job_whose_worker_dies_twice_is_crashed(pool: WorkerPool, tmp_path: Path, deed: str) -> None:
    marks = tmp_path / "marks"
    outcome = pool.submit(deed, str(marks)).result(60)
    assert (outcome.name, outcome.detail) == ("crashed", "worker died twice")
    assert marks.stat().st_size == 2


def test_jobs_that_wait_behind_a_poisonous_one_keep_their_outcomes(pool: WorkerPool, tmp_path: Path) -> None:
    deeds = ["segfault", "work", "hang", "work", "exit", "raise", "work", "hang", "segfault once", "work"]
    futures = [pool.submit(deed, str(tmp_path / f"{number}")) for number, deed in enumerate(deeds)]
    outcomes = {"segfault": "crashed", "exit": "crashed", "hang": "timeout", "raise": "unparsable"}
    assert [future.result(120).name for future in futures] == [outcomes.get(deed, "correct") for deed in deeds]


def test_a_worker_that_dies_once_costs_the_job_nothing(pool: WorkerPool, tmp_path: Path) -> None:
    assert pool.submit("segfault once", str(tmp_path / "marks")).result(60).name == "correct"


def test_a_worker_that_is_stopped_is_killed_and_the_job_tried_again(pool: WorkerPool, tmp_path: Path) -> None:
    outcome = pool.submit("stop once", str(tmp_path / "marks")).result(60)
    assert (outcome.name, outcome.detail) == ("correct", "2")


@pytest.mark.parametrize("deed", ["die after the answer", "die when idle"])
def test_a_worker_that_dies_between_jobs_costs_no_job_and_no_answer(
    pool: WorkerPool, tmp_path: Path, deed: str
) -> None:
    restarted = pool.counters.restarted
    first = pool.submit(deed, str(tmp_path / "marks"))
    others = [pool.submit("work", f"{deed} {number}") for number in range(12)]
    assert (first.result(60).name, first.result(60).detail) == ("correct", "1")
    assert {future.result(60).name for future in others} == {"correct"}
    wait_until(lambda: pool.counters.restarted > restarted)


def test_memory_is_bounded_and_an_error_is_an_outcome(pool: WorkerPool) -> None:
    assert pool.submit("eat", None).result(60).name == "unparsable"
    assert pool.submit("raise", None).result(60).detail == "ValueError"


def test_unfinished_jobs_with_the_same_arguments_are_one_job(pool: WorkerPool) -> None:
    before = pool.counters.jobs
    futures = [pool.submit("work", "same")] + [pool.submit("work", "same") for _ in range(20)]
    assert {future.result(60).name for future in futures} == {"correct"}
    assert pool.counters.jobs - before < 21


def test_cancelling_one_of_two_futures_of_a_job_leaves_the_other(pool: WorkerPool) -> None:
    blocked = [pool.submit("work", f"block {number}") for number in range(100)]
    one, other = pool.submit("work", "shared"), pool.submit("work", "shared")
    assert one.cancel()
    assert other.result(60).name == "correct"
    assert all(future.result(60).name == "correct" for future in blocked)


@pytest.mark.parametrize("which", [0, 1], ids=["fork server", "worker"])
def test_a_kill_from_outside_changes_no_outcome(pool: WorkerPool, which: int) -> None:
    up = [pool.submit("work", f"up {number}") for number in range(8)]
    assert {future.result(60).name for future in up} == {"correct"}
    futures = [pool.submit("work", f"{which} {number}") for number in range(30)]
    os.kill(pool.workers()[which], signal.SIGKILL)
    assert {future.result(60).name for future in futures} == {"correct"}


def test_a_worker_that_was_idle_when_its_server_died_is_replaced(pool: WorkerPool) -> None:
    for turn in ("one", "two"):
        up = [pool.submit("work", f"{turn} {number}") for number in range(8)]
        assert {future.result(60).name for future in up} == {"correct"}
        os.kill(pool.workers()[0], signal.SIGKILL)
        assert pool.submit("work", f"{turn} alone").result(60).name == "correct"


def test_a_child_that_a_worker_leaves_behind_does_not_hide_its_death(pool: WorkerPool) -> None:
    assert pool.submit("exit beside a child", None).result(60).name == "crashed"


def test_close_leaves_no_process_and_unfinished_jobs_end_as_infra() -> None:
    pool = WorkerPool(CHECK, Limits(workers=2))
    assert pool.submit("work", None).result(60).name == "correct"
    pids, pending = pool.workers(), pool.submit("sleep", None)
    pool.close()
    assert pending.result(20).name == "infra"
    assert gone(*pids)
    with pytest.raises(JudgeError, match="closed"):
        pool.submit("work", None)


def test_a_machine_without_file_descriptors_is_an_error_with_a_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("agon_judge.workers.pool.Server", none_left)
    fresh = WorkerPool(CHECK, Limits(workers=1, deadline=0.3, memory=1 << 30))
    with pytest.raises(JudgeError, match="Too many open files") as failed:
        fresh.start()
    assert "ulimit" in failed.value.fix
