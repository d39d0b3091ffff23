"""Whether an output is the expected one: token by token, where whitespace separates tokens.

Outputs are bytes and stay bytes: nothing is decoded, so nothing can fail to decode. Case, order and every character of
a token count. With a tolerance, a token that is a number may differ from an expected number by that much, absolutely
or relative to it. Where an integer is expected, another integer is wrong, and so is a decimal that rounds to another.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
LONGEST_NUMBER = 400


def same_output(expected: bytes, actual: bytes, tolerance: float | None = None) -> bool:
    """Whether both have the same tokens."""
    wanted, given = expected.split(), actual.split()
    if tolerance is None or wanted == given:
        return wanted == given
    return len(wanted) == len(given) and all(_close(*pair, tolerance) for pair in zip(wanted, given, strict=True))


def first_difference(expected: bytes, actual: bytes) -> str:
    """Where the tokens first differ, in words that do not contain the expected output."""
    wanted, given = expected.split(), actual.split()
    for place, (one, other) in enumerate(zip(wanted, given, strict=False), 1):
        if one != other:
            return f"token {place} of {len(wanted)} differs"
    return f"{len(given)} tokens instead of {len(wanted)}"


def _close(expected: bytes, actual: bytes, tolerance: float) -> bool:
    if expected == actual:
        return True
    if max(len(expected), len(actual)) > LONGEST_NUMBER:
        return False
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(actual)):
        return False
    if _INTEGER.fullmatch(expected) and round(Fraction(actual.decode())) != int(expected):
        return False
    wanted, given = float(expected), float(actual)
    return abs(wanted - given) <= tolerance * max(1.0, abs(wanted))
