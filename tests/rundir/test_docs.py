"""docs/rundir.md describes what is written: every column of the bouts, every key of a record."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agon.rundir.bouts import BONUS, COLUMNS, HEAD, ROLLOUT, SEEN
from agon.rundir.manifest import MAY_CHANGE
from agon.rundir.records import StepRecord

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rundir.md").read_text()
NAMED = set(re.findall(r"`([\w.]+)`", PAGE))
TYPES = {"float64": "double", "bool_": "bool"}
SCRIPT = "generate_rundir_docs"


def generate(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "scripts" / SCRIPT, *words], capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The script and its page in a folder of their own."""
    for name in ("scripts", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "scripts" / SCRIPT).write_text((ROOT / "scripts" / SCRIPT).read_text())
    (tmp_path / "docs" / "rundir.md").write_text(PAGE)
    return tmp_path


def test_every_record_has_a_current_table_and_every_key_a_description() -> None:
    done = generate("--check")
    assert done.returncode == 0, done.stderr


def test_a_table_that_is_not_current_is_refused_and_then_written(copy: Path) -> None:
    page = copy / "docs" / "rundir.md"
    page.write_text(PAGE.replace("| `reward_mean` |", "| `mean_reward` |"))
    done = generate("--check", root=copy)
    assert done.returncode == 1
    assert "not current: run scripts/docs --write" in done.stderr
    assert generate(root=copy).returncode == 0
    assert page.read_text() == PAGE


def test_a_record_without_a_table_is_named(copy: Path) -> None:
    page = copy / "docs" / "rundir.md"
    page.write_text(PAGE.replace("<!-- table: Timing -->", ""))
    done = generate("--check", root=copy)
    assert done.returncode == 1
    assert "docs/rundir.md has no table of Timing" in done.stderr


def test_the_tables_list_the_keys_that_are_written() -> None:
    assert StepRecord.model_fields.keys() <= NAMED


@pytest.mark.parametrize("column", [*HEAD, *ROLLOUT, *SEEN, *(f"challenge_{name}" for name in BONUS)])
def test_every_column_is_described(column: str) -> None:
    assert column in NAMED


@pytest.mark.parametrize("column", [*HEAD, *ROLLOUT, *SEEN])
def test_every_column_is_described_with_its_type(column: str) -> None:
    bouts = PAGE.split("## bouts/")[1].split("## checkpoints/")[0]
    [types] = [row.split("|")[2] for row in bouts.splitlines() if re.match(rf"\| [^|]*`{column}`[^|]*\|", row)]
    kind = COLUMNS.get(column) or ROLLOUT[column]
    assert TYPES.get(kind, kind) in types


@pytest.mark.parametrize("key", MAY_CHANGE)
def test_every_key_that_may_change_is_named(key: str) -> None:
    assert key in NAMED
