"""Are the problems what they say? Lengths, and every gold answered with itself before a GPU hour is spent on it.

A gold that its own verifier refuses can never be rewarded: its groups are dead, and it counts against every policy.
Below `GOLD_SHARE` the check fails. Problems judged by tests have no gold to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agon.types import BASE, Completion, Problem, Verdict

GOLD_SHARE = 0.95
"""At least this share of golds must be accepted. Ours: a twentieth of dead groups is already a loss worth a look."""

QUANTILES = {"min": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class Judge(Protocol):
    """What a verifier offers for many answers at once."""

    def verify_many(self, pairs: Sequence[tuple[Problem, Completion]]) -> Sequence[Verdict]: ...


@dataclass(frozen=True, slots=True)
class Rejected:
    """A gold that its own verifier does not accept."""

    id: str
    answer: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """How many golds are accepted when they are given as the answer."""

    accepted: int
    of: int
    rejected: tuple[Rejected, ...]

    @property
    def share(self) -> float | None:
        return self.accepted / self.of if self.of else None

    @property
    def passed(self) -> bool:
        return self.of == 0 or self.accepted >= GOLD_SHARE * self.of


def with_gold(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that have a gold answer: all but those judged by tests."""
    return [problem for problem in problems if problem.answer]


def gold_check(problems: Iterable[Problem], judge: Judge) -> GoldCheck:
    """Answer every problem with its own gold."""
    golds = with_gold(problems)
    verdicts = judge.verify_many([(problem, gold_completion(problem)) for problem in golds])
    rejected = [
        Rejected(problem.id, problem.answer, verdict.reason.value, verdict.detail)
        for problem, verdict in zip(golds, verdicts, strict=True)
        if not verdict.correct
    ]
    return GoldCheck(len(golds) - len(rejected), len(golds), tuple(rejected))


def gold_completion(problem: Problem) -> Completion:
    """A completion that says nothing but the gold."""
    text = f"<think>\nThe answer is known.\n</think>\n<answer>{problem.answer}</answer>"
    return Completion(text, version=BASE, prompt_tokens=0, generated_tokens=0)


def lengths(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    """Quantiles of characters and words."""
    texts = list(texts)
    return {"chars": _quantiles(map(len, texts)), "words": _quantiles(len(text.split()) for text in texts)}


def _quantiles(values: Iterable[int]) -> dict[str, int]:
    ordered = sorted(values)
    return {name: ordered[round(share * (len(ordered) - 1))] for name, share in QUANTILES.items()} if ordered else {}
