"""Numbers are parsed exactly, and a decimal stands for another value only when it is that value, rounded."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_judge.math.rationals import number, same_number


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_numbers_are_parsed_exactly(top: int, bottom: int) -> None:
    parsed = number(rf"{'-' if top < 0 else ''}\frac{{{abs(top)}}}{{{bottom}}}")
    assert parsed is not None
    assert parsed.value * bottom == top
    integer = number(f"{top:,}")
    assert integer is not None
    assert integer.value == top


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 1/5", Fraction(16, 5)),
        ("-3 1/5", Fraction(-16, 5)),
        (r"3\frac{1}{5}", Fraction(16, 5)),
        ("3 7/5", None),
        (r"0.8\overline{3}", Fraction(5, 6)),
        ("1/0", None),
        (r"6.72 \times 10^{-5}", Fraction(672, 10**7)),
    ],
)
def test_a_number_in_one_of_its_spellings(text: str, value: Fraction | None) -> None:
    parsed = number(text)
    assert (parsed and parsed.value) == value


def test_a_decimal_stands_for_a_fraction_only_to_six_digits() -> None:
    rng = random.Random(0)
    for _ in range(200):
        gold = number(f"{rng.randint(1, 999)}/{rng.randint(1, 999) * 7 + 1}")
        assert gold is not None
        value = float(gold.value)
        assert gold.value.denominator == 1 or same_number(gold, number(f"{value:.9f}"))  # type: ignore[arg-type]
        assert not same_number(gold, number(f"{value * 1.001:.9f}"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("1/2", "0.5", True),
        ("1/2", "0.5000005", False),
        ("1/2", "0.50000049", False),
        ("2/3", "0.666667", True),
        ("2/3", "0.66667", False),
        ("2/3", "0.66666667", True),
        ("2/3", "0.66666699", False),
        ("1/3000", "0.000333", False),
        ("0.333333", "1/3", True),
    ],
)
def test_a_decimal_is_the_fraction_rounded_to_the_places_that_it_gives(gold: str, answer: str, same: bool) -> None:
    assert same_number(number(gold), number(answer)) is same  # type: ignore[arg-type]
