"""docs/rundir.md describes what is written: every column of the bouts, every key of a record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agon.rundir.bouts import BONUS, COLUMNS, HEAD, ROLLOUT, SEEN
from agon.rundir.directory import MAY_CHANGE
from tests.training.records import record

PAGE = (Path(__file__).parents[2] / "docs" / "rundir.md").read_text()
NAMED = set(re.findall(r"`([\w.]+)`", PAGE))
TYPES = {"float64": "double", "bool_": "bool"}


@pytest.mark.parametrize("column", [*HEAD, *ROLLOUT, *SEEN, *(f"challenge_{name}" for name in BONUS)])
def test_every_column_is_described(column: str) -> None:
    assert column in NAMED


@pytest.mark.parametrize("column", [*HEAD, *ROLLOUT, *SEEN])
def test_every_column_is_described_with_its_type(column: str) -> None:
    [types] = [
        row.split("|")[2] for row in PAGE.splitlines() if re.match(rf"\| [^|]*`{column}`[^|]*\| (int|str|bo|do)", row)
    ]
    kind = COLUMNS.get(column) or ROLLOUT[column]
    assert TYPES.get(kind, kind) in types


def test_every_key_of_a_record_is_described() -> None:
    entry = record(0)
    assert {*entry, *entry["standalone"], *entry["competitive"]} <= NAMED


@pytest.mark.parametrize("key", MAY_CHANGE)
def test_every_key_that_may_change_is_named(key: str) -> None:
    assert key in NAMED
