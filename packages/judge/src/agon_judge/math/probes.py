"""Answers whose verdict is known: those that must be paid, and those that only a careless rule would pay.

They are in `assets/probes.json`. The self-test of the math judge runs them all, and so do its tests and evidence.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from agon_judge.answers import one_answer
from agon_judge.judge import Judge
from agon_judge.verdict import Reason, Verdict

TABLES = Path(__file__).parent / "assets" / "probes.json"
KINDS = ("paid", "forbidden")
Probe = tuple[str, str, str]
"""Question, gold, answer."""


def forbidden() -> list[Probe]:
    """Answers that must not be paid."""
    return _tables()["forbidden"]


def paid() -> list[Probe]:
    """Answers that must be paid: the gold in other spellings."""
    return _tables()["paid"]


def row(question: str, gold: str, answer: str) -> tuple[str, str | Verdict, str]:
    """The row of a text that ends in `answer`."""
    return gold, one_answer(f"<think>so</think>\nIt follows.\n<answer>{answer}</answer>"), question


def failures(judge: Judge) -> list[str]:
    """The probes on which a judge gives the wrong verdict."""
    return [*_failures(judge, paid(), True), *_failures(judge, forbidden(), False)]


def _failures(judge: Judge, probes: list[Probe], expected: bool) -> list[str]:
    verdicts = judge.judge_many(row(*probe) for probe in probes)
    return [
        f"gold {gold!r}, answer {answer!r}: {verdict.reason.value} {verdict.detail}".rstrip()
        for (_, gold, answer), verdict in zip(probes, verdicts, strict=True)
        if verdict.correct != expected or verdict.reason is Reason.INFRA
    ]


@cache
def _tables() -> dict[str, list[Probe]]:
    tables = json.loads(TABLES.read_text())
    return {name: [(question, gold, answer) for question, gold, answer in tables[name]] for name in KINDS}
