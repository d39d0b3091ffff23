"""Answers whose verdict is known: those that must be paid, and those that only a careless rule would pay.

The self-test of the math verifier runs them all, and so do its tests and evidence.
"""

from __future__ import annotations

from collections.abc import Iterable

from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, Reason
from agon.verify.math.probe_spellings import PAID_FOR_42, PAID_PAIRS, QUESTIONS_PAID
from agon.verify.math.probe_tables import FORBIDDEN_FOR_42, FORBIDDEN_PAIRS, QUESTIONS_FORBIDDEN, STRANGE_FOR_42

Probe = tuple[str, str, str]
"""Question, gold, answer."""


def forbidden() -> list[Probe]:
    """Answers that must not be paid."""
    for_42 = [("", "42", answer) for answer in (*_lines(FORBIDDEN_FOR_42), *STRANGE_FOR_42)]
    return [*for_42, *_pairs(FORBIDDEN_PAIRS), *QUESTIONS_FORBIDDEN]


def paid() -> list[Probe]:
    """Answers that must be paid: the gold in other spellings."""
    return [*(("", "42", answer) for answer in _lines(PAID_FOR_42)), *_pairs(PAID_PAIRS), *QUESTIONS_PAID]


def row(question: str, gold: str, answer: str) -> tuple[Problem, Completion]:
    """A problem and a well-formed completion that ends in `answer`."""
    text = f"<think>so</think>\nIt follows.\n<answer>{answer}</answer>"
    return Problem("probe", question, gold), Completion(text, BASE, 0, 0)


def failures(verifier: Verifier) -> list[str]:
    """The probes on which a verifier gives the wrong verdict."""
    return [*_failures(verifier, paid(), True), *_failures(verifier, forbidden(), False)]


def _failures(verifier: Verifier, probes: Iterable[Probe], expected: bool) -> list[str]:
    probes = list(probes)
    verdicts = verifier.verify_many(row(*probe) for probe in probes)
    return [
        f"gold {gold!r}, answer {answer!r}: {verdict.reason.value} {verdict.detail}".rstrip()
        for (_, gold, answer), verdict in zip(probes, verdicts, strict=True)
        if verdict.correct != expected or verdict.reason is Reason.INFRA
    ]


def _lines(block: str) -> list[str]:
    return [line for line in block.split("\n") if line.strip()]


def _pairs(block: str) -> list[Probe]:
    parts = [line.partition(" ;; ") for line in _lines(block)]
    return [("", gold, answer) for gold, _, answer in parts]
