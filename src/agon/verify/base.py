"""What a verifier is: c(y) and phi(y) of a completion, as a Verdict with a reason."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from agon.types import Completion, Problem, Verdict


class Verifier(abc.ABC):
    """Callable from asyncio one row at a time, or blocking for many; safe to share between threads and tasks."""

    @abc.abstractmethod
    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        """The verdict on one completion."""

    @abc.abstractmethod
    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        """The verdicts on many completions, in order; blocks until all are there."""

    @abc.abstractmethod
    def self_test(self) -> list[str]:
        """What the verifier gets wrong about pairs whose verdict is known; empty when it works."""

    @property
    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """Rows seen, and what it took to judge them."""

    @abc.abstractmethod
    def close(self) -> None:
        """End every process and thread that the verifier started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
