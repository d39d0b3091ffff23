"""The tests of a row are the same in every kind of file, and rows with bad ones are listed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from agon.config import Source
from agon.data import load, read
from agon.errors import DataError
from agon.types import UnitTests
from tests.data.helpers import write_jsonl, write_parquet

CASES = [["1 2", "3"], ["40 2", "42"]]
TESTS = UnitTests((("1 2", "3"), ("40 2", "42")), 1.5, 1 << 28, 1e-6)
FULL = json.loads(json.dumps(dataclasses.asdict(TESTS)))


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
