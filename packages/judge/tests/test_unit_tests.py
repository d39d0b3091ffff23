"""The tests of a program: four forms with one meaning, and a reason for what cannot judge a program."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from agon_judge.unit_tests import UnitTests, unit_tests

CASES = [["1 2", "3"], ["40 2", "42"]]
TESTS = UnitTests((("1 2", "3"), ("40 2", "42")), 1.5, 1 << 28, 1e-6)
FULL = json.loads(json.dumps(dataclasses.asdict(TESTS)))


def test_pairs_an_object_and_json_text_mean_the_same() -> None:
    assert unit_tests(CASES) == unit_tests(json.dumps(CASES)) == unit_tests({"cases": CASES}) == UnitTests(TESTS.cases)
    inputs, outputs = zip(*CASES, strict=True)
    assert unit_tests({"inputs": list(inputs), "outputs": list(outputs)}) == UnitTests(TESTS.cases)
    assert unit_tests(FULL) == unit_tests(json.dumps(FULL)) == TESTS


def test_zero_is_no_limit() -> None:
    assert unit_tests({"cases": CASES, "time_limit": 0, "memory_limit": 0}) == UnitTests(TESTS.cases)


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (None, "not a list"),
        ("[[", "not JSON"),
        ([], "there are no tests"),
        ([["1", ""]], "every expected output is empty"),
        ([["1"]], "not a pair of texts"),
        ([["1", 2]], "not a pair of texts"),
        ({"inputs": ["1", "2"], "outputs": ["3"]}, "2 inputs and 1 outputs"),
        ({"cases": CASES, "memory": 1}, r"a field memory \(known: cases, time_limit"),
        ({"cases": CASES, "memory_limit": 0.5}, "memory_limit is not a whole number"),
        ({"cases": CASES, "time_limit": -1}, "time_limit is not a number of at least 0"),
        ({"cases": CASES, "time_limit": float("nan")}, "time_limit is not a number"),
        ({"cases": CASES, "memory_limit": True}, "memory_limit is not a number"),
        ({"cases": CASES, "tolerance": 1}, "almost any number would pass"),
    ],
)
def test_tests_that_cannot_judge_are_refused_with_the_reason(tests: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        unit_tests(tests)
