"""The tests that judge a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_OUTPUT = 1_000_000
"""Bytes that a program may write to standard output, and as many to standard error."""


@dataclass(frozen=True, slots=True)
class UnitTests:
    """What judges a program: inputs with the outputs that they must give, run in this order, and limits per test.

    The first `public` tests are those that the question shows. None leaves a limit to the judge, and compares numbers
    as text.
    """

    cases: tuple[tuple[str, str], ...] = ()
    public: int = 0
    time_limit: float | None = None
    """Seconds."""
    memory_limit: int | None = None
    """Bytes."""
    tolerance: float | None = None
    """How far a number in the output may be off, absolutely or relative to the expected one."""


def unusable(cases: Sequence[tuple[str, str]]) -> str:
    """Why tests cannot judge any program; empty if they can."""
    if not cases:
        return "there are no tests"
    if not any(expected.split() for _, expected in cases):
        return "every expected output is empty: a program that does nothing would pass"
    largest = max(len(expected.encode(errors="surrogatepass")) for _, expected in cases)
    return f"an expected output has over {MAX_OUTPUT:,} bytes" if largest > MAX_OUTPUT else ""
