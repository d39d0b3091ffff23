"""A judge that asks worker processes: how a row is decided is one generator, run for many rows at once or in a loop."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from agon_judge.judge import Judge
from agon_judge.verdict import Verdict
from agon_judge.workers.pool import Limits, Outcome, WorkerPool
from agon_judge.workers.system import available_cores

Question = tuple[str | None, ...]
"""What a worker is asked: the arguments of the pool's function."""
Steps = Generator[Question, Outcome, Verdict]
"""The way to a verdict: yields what to ask a worker, is sent the outcome, and returns the verdict."""


class PooledJudge(Judge):
    """`function` runs in the workers: `workers` of them, by default one per core up to 8. `setup` and `environ` are
    those of the pool."""

    def __init__(
        self,
        function: str,
        workers: int | None,
        deadline: float,
        memory: int = 2 << 30,
        *,
        stall: float = 15,
        setup: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        limits = Limits(workers or min(8, available_cores()), deadline, memory, stall)
        self._pool = WorkerPool(function, limits, setup=setup, environ=environ)
        self._rows = 0
        self._pool.start()

    @abc.abstractmethod
    def steps(self, *row: Any) -> Steps:
        """Decide one row."""

    def judge_many(self, rows: Iterable[Any]) -> list[Verdict]:
        begun = [self.steps(*row) for row in rows]
        self._rows += len(begun)
        reached = [_advance(row, None) for row in begun]
        while futures := self._submit(reached):
            for index, future in futures.items():
                reached[index] = _advance(begun[index], future.result())
        return [step for step in reached if isinstance(step, Verdict)]

    async def judge_async(self, *row: Any, **named: Any) -> Verdict:
        self._rows += 1
        begun = self.steps(*row, **named)
        step = _advance(begun, None)
        while isinstance(step, tuple):
            outcome = await asyncio.wrap_future(self._pool.submit(*step))
            step = _advance(begun, outcome)
        return step

    @property
    def counters(self) -> dict[str, int]:
        pool = self._pool.counters
        asked = {name: getattr(pool, name) for name in ("jobs", "killed", "restarted", "retried")}
        return {"rows": self._rows, **asked}

    def workers(self) -> tuple[int, ...]:
        """Process ids of the fork server and the workers that are alive."""
        return self._pool.workers()

    def close(self) -> None:
        self._pool.close()

    def _submit(self, reached: list[Question | Verdict]) -> dict[int, Future[Outcome]]:
        return {index: self._pool.submit(*step) for index, step in enumerate(reached) if isinstance(step, tuple)}


def _advance(row: Steps, outcome: Outcome | None) -> Question | Verdict:
    """Run a row up to its next question or its end."""
    try:
        return next(row) if outcome is None else row.send(outcome)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
