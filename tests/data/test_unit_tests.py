"""The tests of a row: three forms with one meaning, and a reason for what cannot judge a program."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from agon.config import Source
from agon.data import load, read
from agon.data.unit_tests import unit_tests
from agon.errors import DataError
from agon.types import UnitTests
from tests.data.helpers import write_jsonl, write_parquet

CASES = [["1 2", "3"], ["40 2", "42"]]
TESTS = UnitTests((("1 2", "3"), ("40 2", "42")), 1, 1.5, 1 << 28, 1e-6)
FULL = json.loads(json.dumps(dataclasses.asdict(TESTS)))


def test_pairs_an_object_and_json_text_mean_the_same() -> None:
    assert unit_tests(CASES) == unit_tests(json.dumps(CASES)) == unit_tests({"cases": CASES}) == UnitTests(TESTS.cases)
    assert unit_tests(FULL) == unit_tests(json.dumps(FULL)) == TESTS


def test_zero_is_no_limit() -> None:
    assert unit_tests({"cases": CASES, "time_limit": 0, "memory_limit": 0, "public": 0}) == UnitTests(TESTS.cases)


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (None, "not a list"),
        ("[[", "not JSON"),
        ([], "there are no tests"),
        ([["1", ""]], "every expected output is empty"),
        ([["1"]], "not a pair of texts"),
        ([["1", 2]], "not a pair of texts"),
        ({"cases": CASES, "memory": 1}, r"a field memory \(known: cases, public, time_limit"),
        ({"cases": CASES, "public": 3}, "3 are public, but there are 2"),
        ({"cases": CASES, "public": 0.5}, "public is not a whole number"),
        ({"cases": CASES, "time_limit": -1}, "time_limit is not a number of at least 0"),
        ({"cases": CASES, "time_limit": float("nan")}, "time_limit is not a number"),
        ({"cases": CASES, "memory_limit": True}, "memory_limit is not a number"),
        ({"cases": CASES, "tolerance": 1}, "almost any number would pass"),
    ],
)
def test_tests_that_cannot_judge_are_refused_with_the_reason(tests: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        unit_tests(tests)


def test_jsonl_parquet_and_csv_carry_the_same_tests(tmp_path: Path) -> None:
    row = {"question": "Add.", "tests": FULL}
    csv = tmp_path / "a.csv"
    csv.write_text('question,tests\nAdd.,"{}"\n'.format(json.dumps(FULL).replace('"', '""')))
    paths = [write_jsonl(tmp_path / "a.jsonl", [row]), write_parquet(tmp_path / "a.parquet", [row]), str(csv)]
    for path in paths:
        (problem,) = load(Source(path=path, columns={"tests": "tests"}))
        assert (problem.question, problem.answer, problem.tests, problem.meta) == ("Add.", "", TESTS, {})


def test_a_program_that_passes_can_stand_beside_the_tests(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "Add.", "tests": CASES, "solution": "print(3)"}])
    (problem,) = load(Source(path=path, columns={"tests": "tests", "answer": "solution"}))
    assert (problem.answer, problem.is_code) == ("print(3)", True)


def test_rows_with_bad_tests_are_listed(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "a", "tests": CASES}, {"question": "b", "tests": []}])
    with pytest.raises(DataError, match=r"1 of 2 rows .* there are no tests: row 2"):
        read(Source(path=path, columns={"tests": "tests"}))
