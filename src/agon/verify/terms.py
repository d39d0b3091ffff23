"""Further reward functions beside the verifier: each returns a number per completion, and its weight is applied here.

Right and wrong, and so the conversion bonus, stay the verifier's. A function that returns None or NaN does not apply to
the row and pays nothing, as in TRL; such rows are counted. One that raises masks the row, as with any other broken
machine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from agon.protocols import Verifier
from agon.types import Completion, Problem, Reason, Verdict
from agon.verify.custom import Call, Function, no_verdict


def with_terms(verifier: Verifier, functions: Sequence[Function], weights: Sequence[float] = ()) -> Verifier:
    """The verifier, paying these functions too; each weighs 1 unless `weights` says otherwise."""
    return WithTerms(verifier, functions, weights or [1.0] * len(functions)) if functions else verifier


class WithTerms(Verifier):
    """A verifier and further reward functions."""

    def __init__(self, verifier: Verifier, functions: Sequence[Function], weights: Sequence[float]) -> None:
        self._verifier = verifier
        self._terms = list(zip(map(Call, functions), weights, strict=True))
        self._failed = self._not_applied = 0

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        paying = asyncio.gather(*(self._value(term, problem, completion) for term, _ in self._terms))
        verdict, values = await asyncio.gather(self._verifier(problem, completion), paying)
        return self._paid(verdict, values)

    def self_test(self) -> list[str]:
        return self._verifier.self_test()

    @property
    def counters(self) -> dict[str, int]:
        return self._verifier.counters | {
            "failed_terms": self._failed,
            "terms_not_applied": self._not_applied,
        }

    def close(self) -> None:
        for term, _ in self._terms:
            term.close()
        self._verifier.close()

    async def _value(self, term: Call, problem: Problem, completion: Completion) -> float | str:
        """What a function pays, or why it cannot say."""
        try:
            value = await term(problem, completion)
        except Exception as error:  # a user's function may raise anything
            return f"{term.name} raised {term.raised(error)}"
        if no_verdict(value):
            self._not_applied += 1
            return 0.0
        if isinstance(value, bool | int | float) and math.isfinite(value):
            return float(value)
        return f"{term.name} returned {value!r}, which is not a number"

    def _paid(self, verdict: Verdict, values: Sequence[float | str]) -> Verdict:
        if not verdict.graded:
            return verdict
        if failures := [value for value in values if isinstance(value, str)]:
            self._failed += 1
            return replace(verdict, correct=False, reason=Reason.INFRA, detail=failures[0][:300])
        extra = sum(weight * float(value) for value, (_, weight) in zip(values, self._terms, strict=True))
        return replace(verdict, extra=verdict.extra + extra)
