"""Units are compared only if both are known."""

from __future__ import annotations

import pytest

from agon_judge.math import units


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("cm", "cm", False),
        ("cm", "m", True),
        ("cm", "", False),
        ("cm^2", "cm", True),
        ("dollar", "cent", True),
        ("apple", "m", False),
        ("unit^2", "cm^2", False),
        ("unit", "cm^2", True),
        ("m/second", "km/hour", True),
    ],
)
def test_units_clash_only_when_both_are_known(one: str, other: str, clash: bool) -> None:
    assert units.clash(one, other) is clash


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Square centimeters", "cm^2"),
        ("meters per second", "m/second"),
        ("m/s", "m/second"),
        ("mph", "mile/hour"),
        ("miles per hour", "mile/hour"),
        ("degrees Celsius", "celsius"),
        ("degrees F", "fahrenheit"),
        ("Red apples", "red apples"),
    ],
)
def test_a_unit_has_one_name(name: str, unit: str) -> None:
    assert units.canonical_unit(name) == unit


@pytest.mark.parametrize("unit", ["apples", "eggs/day", "year old", "people", "boxes"])
def test_what_can_be_counted_is_a_unit(unit: str) -> None:
    assert units.could_count(unit, "")


SCALES = [
    "quadrillions",
    "zillions",
    "decillions",
    "myriads",
    "couples",
    "triples",
    "trios",
    "doublings",
    "reciprocals",
]


@pytest.mark.parametrize("unit", [*SCALES, "basis points", "dozen eggs", "red apples"])
def test_a_word_that_nobody_knows_may_be_a_scale(unit: str) -> None:
    assert not units.could_count(unit, "How many?")
    assert units.could_count(unit, f"How many {unit} are left?")


@pytest.mark.parametrize("unit", ["inverse", "kilo", "false", "unless", "below sea", "minus", "twice"])
def test_words_that_count_nothing_are_no_unit_unless_the_question_has_them(unit: str) -> None:
    assert not units.could_count(unit, "How many are left?")
    assert units.could_count(unit, f"How many {unit}?")


@pytest.mark.parametrize(
    "text", ["42 squared", "42 five", "42 tens", "42 divided by two", "42 of it", "42 lakh", "42 fifteenths", "42 x"]
)
def test_words_that_change_the_value_stay_with_it(text: str) -> None:
    assert units.split_unit(text, str.isdigit) == (text, "")


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("42 cm", ("42", "cm")),
        ("12\\pi cm", ("12\\pi", "cm")),
        ("12\\pi square units", ("12\\pi", "unit^2")),
        ("12\\pi apples", ("12\\pi apples", "")),
        ("120 m/s", ("120", "m/second")),
        ("USD 32", ("32", "dollar")),
        ("3 x/y", ("3 x/y", "")),
    ],
)
def test_after_an_expression_only_known_units_are_units(text: str, split: tuple[str, str]) -> None:
    assert units.split_unit(text, str.isdigit) == split
