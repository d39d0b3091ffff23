"""A pool that cannot start, is killed again and again, or has a bug ends jobs as `infra`, and recovers."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from agon_judge.workers.pool import Limits, WorkerPool
from worker_checks import CHECK


@pytest.mark.parametrize("check", ["worker_checks:missing", "no_such_module:check"])
def test_a_check_that_cannot_be_loaded_is_infra_with_the_reason(check: str) -> None:
    pool = WorkerPool(check, Limits(workers=1))
    try:
        outcome = pool.submit("a", "b").result(120)
        assert outcome.name == "infra"
        assert "Error" in outcome.detail
    finally:
        pool.close()


def test_a_job_whose_workers_are_all_killed_from_outside_is_infra_and_not_wrong(tmp_path: Path) -> None:
    pool, over = WorkerPool(CHECK, Limits(workers=1)), threading.Event()

    def kill_workers() -> None:
        while not over.wait(0.02):
            for pid in pool.workers()[1:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    pool.submit("work", "up").result(60)
    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        outcome = pool.submit("sleep", str(tmp_path / "marks")).result(120)
        assert outcome.name == "infra"
        assert outcome.detail == "lost its worker 20 times"
    finally:
        over.set()
        killer.join()
    assert pool.submit("work", "after").result(60).name == "correct"
    pool.close()


def test_a_bug_in_a_thread_is_infra_and_the_next_job_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(CHECK, Limits(workers=1))
    try:
        with monkeypatch.context() as broken:
            broken.setattr(WorkerPool, "_ask", lambda *_: 1 / 0)
            outcome = pool.submit("work", "first").result(60)
        assert (outcome.name, outcome.detail) == ("infra", "ZeroDivisionError: division by zero")
        assert pool.submit("work", "second").result(60).name == "correct"
    finally:
        pool.close()
