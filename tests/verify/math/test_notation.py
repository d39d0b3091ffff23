"""Numbers are parsed exactly."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from agon.verify.math import notation


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_numbers_are_parsed_exactly(top: int, bottom: int) -> None:
    parsed = notation.number(rf"{'-' if top < 0 else ''}\frac{{{abs(top)}}}{{{bottom}}}")
    assert parsed is not None
    assert parsed.value * bottom == top
    integer = notation.number(f"{top:,}")
    assert integer is not None
    assert integer.value == top


def test_a_decimal_stands_for_a_fraction_only_to_six_digits() -> None:
    rng = random.Random(0)
    for _ in range(200):
        gold = notation.number(f"{rng.randint(1, 999)}/{rng.randint(1, 999) * 7 + 1}")
        assert gold is not None
        value = float(gold.value)
        assert gold.value.denominator == 1 or notation.same_number(gold, notation.number(f"{value:.9f}"))  # type: ignore[arg-type]
        assert not notation.same_number(gold, notation.number(f"{value * 1.001:.9f}"))  # type: ignore[arg-type]
