"""What every judge offers: verdicts on one row, on many, and without blocking a loop."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from agon_judge.verdict import Verdict


class Judge(abc.ABC):
    """May be shared between threads and tasks. What a row holds is said by the judge: see `judge` of each.

    Where the answer of a row would be, a Verdict may stand that says why there is none (`one_answer`, `one_program`).
    """

    @abc.abstractmethod
    def judge_many(self, rows: Iterable[Any]) -> list[Verdict]:
        """The verdicts on many rows, in order; blocks until all are there."""

    @abc.abstractmethod
    async def judge_async(self, *row: Any, **named: Any) -> Verdict:
        """The verdict on one row; a coroutine."""

    @abc.abstractmethod
    def self_test(self) -> list[str]:
        """What the judge gets wrong about rows whose verdict is known; empty when it works."""

    @property
    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """Rows seen, and what it took to judge them."""

    @abc.abstractmethod
    def close(self) -> None:
        """End every process and thread that the judge started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
