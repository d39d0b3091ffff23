"""The tests that judge a program, in any of the forms that a file holds them in:

    [["1 2", "3"], ["40 2", "42"]]      pairs of input and output
    {"inputs": ["1 2"], "outputs": ["3"]}
    {"cases": [["1 2", "3"]], "time_limit": 2.0, "memory_limit": 268435456, "tolerance": 1e-6}
    '[["1 2", "3"]]'                    either as JSON text: all that a CSV file can hold

Tests that cannot judge a program are a ValueError with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

MAX_OUTPUT = 1_000_000
"""Bytes that a program may write to standard output, and as many to standard error."""


@dataclass(frozen=True, slots=True)
class UnitTests:
    """What judges a program: inputs with the outputs that they must give, run in this order, and limits per test.

    None leaves a limit to the judge, and compares numbers as text.
    """

    cases: tuple[tuple[str, str], ...] = ()
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


def unit_tests(value: object) -> UnitTests:
    """The tests of a row of a file."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError("tests are text that is not JSON") from error
    row = value if isinstance(value, Mapping) else {"cases": value}
    if {"inputs", "outputs"} <= row.keys():
        inputs, outputs = _list(row["inputs"]), _list(row["outputs"])
        if len(inputs) != len(outputs):
            raise ValueError(f"tests have {len(inputs)} inputs and {len(outputs)} outputs")
        rest = {name: row[name] for name in row if name not in ("inputs", "outputs")}
        row = {**rest, "cases": list(zip(inputs, outputs, strict=True))}
    keys = [field.name for field in fields(UnitTests)]
    if unknown := sorted(map(str, row.keys() - set(keys))):
        raise ValueError(f"tests have a field {', '.join(unknown)} (known: {', '.join(keys)})")
    return checked(
        UnitTests(
            tuple(map(_case, _list(row.get("cases")))),
            _number(row, "time_limit"),
            _count(row, "memory_limit"),
            _number(row, "tolerance"),
        )
    )


def checked(tests: UnitTests) -> UnitTests:
    """The tests themselves, if they can judge a program."""
    if flaw := unusable(tests.cases):
        raise ValueError(f"tests: {flaw}")
    if tests.tolerance is not None and tests.tolerance >= 1:
        raise ValueError("tests: tolerance is 1 or more: almost any number would pass")
    return tests


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise ValueError("tests are not a list of pairs of input and output")
    return value


def _case(value: object) -> tuple[str, str]:
    pair = _list(value)
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise ValueError("a test is not a pair of texts, input and output")
    return str(pair[0]), str(pair[1])


def _number(row: Mapping[str, object], name: str) -> float | None:
    """A number above 0; 0 is none."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"tests: {name} is not a number of at least 0")
    return float(value) or None


def _count(row: Mapping[str, object], name: str) -> int | None:
    value = _number(row, name)
    if value is not None and not value.is_integer():
        raise ValueError(f"tests: {name} is not a whole number")
    return value if value is None else int(value)
