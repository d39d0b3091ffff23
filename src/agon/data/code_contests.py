"""CodeContests: the rule that turns a row of `deepmind/code_contests` into a problem with tests.

The paper takes the problems of difficulty EASY and counts a program as right if it passes all unit tests; the rest is
ours. Left out is what comparing outputs cannot judge: problems that use named files, that talk to a judge, or that
accept any of several outputs. CodeContests publishes no checkers and marks no such problem, so the two latter are
recognised by the words of their statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from agon.data.local import LeftOut, RawRow
from agon.data.normalise import make_problem, question_text
from agon.types import Problem, UnitTests
from agon_judge.unit_tests import checked

EASY = 1
"""The data set's own number for its difficulty EASY."""
LARGEST_TEST = 1_000_000
"""Characters of input and output together; a larger test is left out (a few are tens of megabytes)."""
LONGEST_RUN = 30.0
"""Seconds; a longer published time limit is taken for a mistake."""
SETS = ("public_tests", "private_tests", "generated_tests")
"""In the order in which they run."""
COLUMNS = (
    "name", "description", "difficulty", *SETS, "time_limit", "memory_limit_bytes", "input_file", "output_file",
)  # fmt: skip

_INTERACTIVE = re.compile(
    r"\binteractive (?:problem|task)|\bflush(?:es|ing)? (?:the |your )?(?:output|stdout|buffer)", re.I
)
_THING = r"(?:answers?|solutions?|outputs?|ones?|orders?|ways?|sequences?|permutations?|strings?|arrays?|numbers?)"
_FIT = r"(?:valid|correct|acceptable|suitable|possible|optimal)"
_SEVERAL = re.compile(
    rf"""\b(?:print|output|report|return|give)\ any\ (?:one\ )?(?:of|such|{_FIT}|{_THING})\b
       | \bany\ (?:one\ )?of\ (?:them|these|those|the\ (?:solutions|answers|{_FIT}))\b
       | \bany\ {_FIT}\ {_THING}\b
       | \b(?:print|output)[^.\n]{{0,80}}\bin\ any\ order\b
       | \bspecial\ (?:judge|checker)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def code_problem(row: RawRow) -> Problem | LeftOut:
    """A problem with all its tests, the public ones first; they judge instead of a gold answer."""
    question = question_text(row["description"])
    if reason := unjudgeable(row, question):
        return reason
    public, *hidden = (_tests(row[name]) for name in SETS)
    tests = [*public, *chain(*hidden)]
    kept = _usable(tests)
    if not kept:
        raise ValueError("no tests" if not tests else "no test of a usable size")
    limits = _seconds(row["time_limit"]), row["memory_limit_bytes"] or None
    meta = {"name": row["name"], "oversized_tests": len(tests) - len(kept)}
    return make_problem(question, "", meta, checked(UnitTests(tuple(kept), *limits)))


def unjudgeable(row: RawRow, question: str) -> LeftOut | None:
    """Why tests of input and output cannot judge a program for this problem."""
    if row["input_file"] or row["output_file"]:
        return "with named files"
    spaced = " ".join(question.split())
    if _INTERACTIVE.search(spaced):
        return "with an interactive judge"
    return "with several right outputs" if _SEVERAL.search(spaced) else None


def _usable(tests: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [test for test in tests if len(test[0]) + len(test[1]) <= LARGEST_TEST]


def _tests(tests: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Pairs of input and output."""
    inputs, outputs = (tests or {}).get("input") or [], (tests or {}).get("output") or []
    if len(inputs) != len(outputs):
        raise ValueError("test inputs and outputs differ in number")
    if not all(isinstance(text, str) for text in [*inputs, *outputs]):
        raise ValueError("a test is not text")
    return list(zip(inputs, outputs, strict=True))


def _seconds(limit: Mapping[str, Any] | None) -> float | None:
    """A usable time limit; None where the published one is missing or not positive."""
    total = (limit or {}).get("seconds", 0) + (limit or {}).get("nanos", 0) / 1e9
    return min(total, LONGEST_RUN) if total > 0 else None
