"""Workers hang, crash, eat memory and are killed; the outcome of a job depends on the job alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agon.errors import VerifierError
from agon.verify.workers.pool import Limits, Pool
from agon.verify.workers.supervisor import Crew

JUDGE = "tests.verify.saboteur:judge"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    shared = Pool(JUDGE, Limits(workers=2, deadline=0.3, memory=1 << 30))
    yield shared
    shared.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def test_a_job_that_hangs_is_a_timeout_and_its_neighbours_are_not(pool: Pool) -> None:
    futures = [pool.submit(deed, str(number)) for number, deed in enumerate(["work", "hang", "work", "work", "work"])]
    assert [future.result(60).name for future in futures] == ["correct", "timeout", "correct", "correct", "correct"]


@pytest.mark.parametrize("deed", ["segfault", "exit"])
def test_a_job_whose_worker_dies_twice_is_crashed(pool: Pool, tmp_path: Path, deed: str) -> None:
    marks = tmp_path / "marks"
    outcome = pool.submit(deed, str(marks)).result(60)
    assert (outcome.name, outcome.detail) == ("crashed", "worker died twice")
    assert marks.stat().st_size == 2


def test_a_worker_that_dies_once_costs_the_job_nothing(pool: Pool, tmp_path: Path) -> None:
    assert pool.submit("segfault once", str(tmp_path / "marks")).result(60).name == "correct"


def test_a_worker_that_is_stopped_is_given_up_and_the_job_tried_again(pool: Pool, tmp_path: Path) -> None:
    outcome = pool.submit("stop once", str(tmp_path / "marks")).result(60)
    assert (outcome.name, outcome.detail) == ("correct", "2")


def test_memory_is_bounded_and_an_error_is_an_outcome(pool: Pool) -> None:
    assert pool.submit("eat", None).result(60).name == "unparsable"
    assert pool.submit("raise", None).result(60).detail == "ValueError"


def test_jobs_under_way_with_the_same_arguments_are_one_job(pool: Pool) -> None:
    before = pool.counters.jobs
    futures = [pool.submit("work", "same")] + [pool.submit("work", "same") for _ in range(20)]
    assert {future.result(60).name for future in futures} == {"correct"}
    assert pool.counters.jobs - before < 21


def test_cancelling_one_of_two_who_wait_leaves_the_other(pool: Pool) -> None:
    blocked = [pool.submit("work", f"block {number}") for number in range(100)]
    one, other = pool.submit("work", "shared"), pool.submit("work", "shared")
    assert one.cancel()
    assert other.result(60).name == "correct"
    assert all(future.result(60).name == "correct" for future in blocked)


@pytest.mark.parametrize("which", [0, 1], ids=["nursery", "worker"])
def test_a_kill_from_outside_changes_no_outcome(pool: Pool, which: int) -> None:
    pool.submit("work", "up").result(60)
    wait_until(lambda: len(pool.workers()) == 3)
    futures = [pool.submit("work", f"{which} {number}") for number in range(30)]
    os.kill(pool.workers()[which], signal.SIGKILL)
    assert {future.result(60).name for future in futures} == {"correct"}


def test_close_leaves_no_process_and_jobs_under_way_end_as_infra() -> None:
    pool = Pool(JUDGE, Limits(workers=2))
    assert pool.submit("work", None).result(60).name == "correct"
    pids, pending = pool.workers(), pool.submit("sleep", None)
    pool.close()
    assert pending.result(20).name == "infra"
    wait_until(lambda: not any(map(alive, pids)))
    with pytest.raises(VerifierError, match="closed"):
        pool.submit("work", None)


@pytest.mark.parametrize("function", ["tests.verify.saboteur:missing", "tests.verify.nothing:judge"])
def test_a_verifier_that_cannot_start_is_infra_with_the_reason(function: str) -> None:
    pool = Pool(function, Limits(workers=1))
    try:
        outcome = pool.submit("a", "b").result(120)
        assert outcome.name == "infra"
        assert "Error" in outcome.detail
    finally:
        pool.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_the_watching_thread_is_infra_and_the_next_job_finds_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(crew: Crew) -> None:
        if crew.pids()[1:]:
            raise RuntimeError("a bug")

    pool = Pool(JUDGE, Limits(workers=1))
    try:
        with monkeypatch.context() as broken:
            broken.setattr(Crew, "_watch", fail)
            assert pool.submit("work", "first").result(60).name == "infra"
        assert pool.submit("work", "second").result(60).name == "correct"
    finally:
        pool.close()


ORPHAN = """
import sys, time
from agon.verify.workers.pool import Limits, Pool
pool = Pool("tests.verify.saboteur:judge", Limits(workers=2, deadline=60))
pool.submit("work", None).result()
hanging = [pool.submit("hang", None), pool.submit("sleep", None)]
while len(pool.workers()) < 3:
    time.sleep(0.02)
print(*pool.workers(), flush=True)
time.sleep(600)
"""


def test_nobody_survives_the_death_of_the_parent() -> None:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 3
    assert all(map(alive, pids))
    parent.kill()
    parent.communicate()
    wait_until(lambda: not any(map(alive, pids)))
