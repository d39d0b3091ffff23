"""Plain rational numbers: how they are spelled, and when two of them are the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_INT = r"\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)\s*(?:(?P<whole>{_INT})?(?P<point>\.\d*)?(?:\\overline\s*\{{(?P<repeat>\d+)\}})?"
    r"(?:\s*(?:\\times|\\cdot)\s*10\s*\^\s*(?:\{\s*(?P<exp>-?\d{1,2})\s*\}|(?P<exp1>\d)))?)"
)
_FRACTION = re.compile(
    rf"(?P<sign>[-+]?)\s*(?:(?P<mixed>\d+)\s*)?\\frac\s*\{{\s*(?P<top>-?\s*(?:{_INT}))\s*\}}\s*\{{\s*(?P<bottom>{_INT})\s*\}}"
    rf"|(?P<sign2>[-+]?)\s*(?:(?P<mixed2>\d+) )?(?P<top2>{_INT})\s*/\s*(?P<bottom2>{_INT})"
)
PLACES, NEAR = 6, Fraction(2, 10**6)
"""The decimal places that an approximation needs, and how far it may be off relative to the value: six digits."""


@dataclass(frozen=True, slots=True)
class Rational:
    """A rational number and how it is written: an unevaluated fraction is not an integer. `places` are decimal ones."""

    value: Fraction
    decimal: bool = False
    fraction: bool = False
    places: int = 0


def number(text: str) -> Rational | None:
    """The rational that `text` spells: integer, decimal, repeating decimal, fraction, mixed or scientific."""
    if match := _FRACTION.fullmatch(text):
        return _fraction(match)
    match = _NUMBER.fullmatch(text)
    if not match or not (match["whole"] or len(match["point"] or "") > 1 or match["repeat"]):
        return None
    if match["repeat"] and not match["point"]:
        return None
    return _decimal(match)


def same_number(gold: Rational, answer: Rational) -> bool:
    """Whether two rationals are equal; a decimal may also stand for a fraction."""
    if gold.value == answer.value:
        return True
    if gold.fraction and answer.decimal:
        return approximates(answer, gold.value)
    return gold.decimal and answer.fraction and approximates(gold, answer.value)


def approximates(decimal: Rational, value: Fraction) -> bool:
    """Whether a decimal is `value` rounded to the places that it gives, at least six places and six digits."""
    gap = abs(decimal.value - value)
    return decimal.places >= PLACES and 2 * gap <= Fraction(1, 10**decimal.places) and gap <= NEAR * abs(value)


def _digits(text: str) -> int:
    return int(re.sub(r"[, ]", "", text))


def _fraction(match: re.Match[str]) -> Rational | None:
    top, bottom = _digits(match["top"] or match["top2"]), _digits(match["bottom"] or match["bottom2"])
    mixed = match["mixed"] or match["mixed2"]
    if bottom == 0 or (mixed and top < 0) or (match["mixed2"] and top >= bottom):
        return None
    value = Fraction(top, bottom) + int(mixed or 0)
    return Rational(-value if "-" in (match["sign"] or match["sign2"] or "") else value, fraction=True)


def _decimal(match: re.Match[str]) -> Rational:
    digits, power = (match["point"] or ".")[1:], int(match["exp"] or match["exp1"] or 0)
    value = Fraction(_digits(match["whole"] or "0")) + Fraction(int(digits or "0"), 10 ** len(digits))
    if repeat := match["repeat"]:
        value += Fraction(int(repeat), (10 ** len(repeat) - 1) * 10 ** len(digits))
    value *= Fraction(10) ** power
    places = max(0, len(digits) - power)
    return Rational(-value if match["sign"] == "-" else value, decimal=bool(match["point"]), places=places)
