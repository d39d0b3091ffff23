"""M26: the judge works from threads, from asyncio, in forked children, and with a host that uses SIGALRM."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agon_judge.math.judge import MathJudge
from agon_judge.math.probes import row
from agon_judge.verdict import Reason

ROWS = [("", f"{k}+x", f"x+{k + k % 2}") for k in range(12)]
EXPECTED = [k % 2 == 0 for k in range(12)]


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    """A host that uses SIGALRM itself."""
    rung: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    yield rung
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def test_from_threads(judge: MathJudge) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda probe: judge.judge_many([row(*probe)])[0].correct, ROWS * 3))
    assert found == EXPECTED * 3


def test_from_asyncio_without_blocking_the_loop(judge: MathJudge) -> None:
    async def main() -> tuple[list[bool], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticker = asyncio.create_task(tick())
        slow = judge.judge_async(*row("", "e^{x^2}", "8^{9^{99}}"))
        verdicts = await asyncio.gather(slow, *(judge.judge_async(*row(*probe)) for probe in ROWS))
        ticker.cancel()
        assert verdicts[0].reason is Reason.TIMEOUT
        return [verdict.correct for verdict in verdicts[1:]], ticks

    verdicts, ticks = asyncio.run(main())
    assert verdicts == EXPECTED
    assert ticks > 10


def test_blocking_inside_a_running_loop(judge: MathJudge) -> None:
    async def main() -> list[bool]:
        return [verdict.correct for verdict in judge.judge_many(row(*probe) for probe in ROWS)]

    assert asyncio.run(main()) == EXPECTED


def test_a_cancelled_task_does_not_harm_others(judge: MathJudge) -> None:
    async def main() -> bool:
        task = asyncio.create_task(judge.judge_async(*row("", "z^2+77", "77+z^2")))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await judge.judge_async(*row("", "z^2+77", "77+z^2"))).correct

    assert asyncio.run(main())


def test_with_a_host_that_uses_sigalrm(judge: MathJudge, alarms: list[int]) -> None:
    probes = [("", f"{k}x+w", f"w+{k}x") for k in range(8)]
    assert all(verdict.correct for verdict in judge.judge_many(row(*probe) for probe in probes))
    signal.pause()
    assert alarms


def test_in_a_forked_child_while_a_thread_of_the_parent_uses_it(judge: MathJudge) -> None:
    mine = set(judge.workers())
    thread = threading.Thread(target=lambda: judge.judge_many(row("", f"{k}y+v", f"v+{k}y") for k in range(20)))
    thread.start()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            found = [verdict.correct for verdict in judge.judge_many(row("", f"u+{k}", f"{k}+u") for k in range(5))]
            own = set(judge.workers())
            judge.close()
            status = 0 if all(found) and not own & mine else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert judge.judge_many([row("", "t+1", "1+t")])[0].correct
    assert mine & set(judge.workers()), "the parent's workers are untouched"


def test_repeated_answers_are_judged_once(judge: MathJudge) -> None:
    together = [row("", "s^2+6", "6+s^2")] * 50
    before = judge.counters
    assert all(verdict.correct for verdict in judge.judge_many(together))
    assert judge.counters["jobs"] - before["jobs"] < 50
    before = judge.counters
    probe = row("", "s^2+5", "5+s^2")
    judge.judge_many([probe])
    assert all(verdict.correct for verdict in judge.judge_many([probe] * 50))
    after = judge.counters
    assert after["jobs"] - before["jobs"] == 1
    assert after["cached"] > before["cached"]
    assert after["rows"] - before["rows"] == 51
