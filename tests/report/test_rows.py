"""Sources of bouts: runs, parquet files and evaluations give the same columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.errors import RunDirError
from agon.report.payload import MARKS, OUTCOMES
from agon.report.rows import open_source
from agon.report.viewer import render
from agon.rundir import RunDir
from agon.rundir.log import BoutLog
from agon.rundir.records import write_record
from agon.rundir.results import RunFacts
from agon_lens.logs import StepRange

from .helpers import BOUTS, HOSTILE, make_match, play_bouts, result
from .test_viewer import names, unpack


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_match(tmp_path_factory.mktemp("run"))


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    """A result, and its bouts beside it."""
    BoutLog(tmp_path / "ab.jsonl").append(play_bouts(0, BOUTS, HOSTILE), "ab")
    made = result(RunFacts(name="run"), "none", "cascade", {"p0": [True]}, None)
    write_record(tmp_path / "cascade.json", made.model_copy(update={"records": ["ab.jsonl"]}))
    return tmp_path / "cascade.json"


def test_an_evaluation_shows_the_outcomes_of_the_same_bouts_in_training(run: RunDir, evaluation: Path) -> None:
    trained, evaluated = (unpack(render(open_source(path)), "index") for path in (run.path, evaluation))
    assert evaluated["columns"]["outcomes"] == trained["columns"]["outcomes"][: len(BOUTS)]
    assert trained["rewarded"]
    assert not evaluated["rewarded"]
    assert set(evaluated["columns"]["step"]) == {0}


def test_a_row_of_an_evaluation_is_not_dead(evaluation: Path) -> None:
    columns = unpack(render(open_source(evaluation)), "index")["columns"]
    assert "dead" not in {name for bits in columns["marks"] for name in names(bits, MARKS)}
    assert names(columns["outcomes"][1], OUTCOMES) == {"converted", "disagree"}


def test_a_result_is_shown_from_the_files_beside_it_alone(evaluation: Path) -> None:
    raw = json.loads(evaluation.read_text())
    evaluation.write_text(json.dumps(raw | {"records": ["../../elsewhere/ab.jsonl"]}))
    assert len(list(open_source(evaluation).bouts)) == len(BOUTS)
    evaluation.write_text(json.dumps(raw | {"records": ["ba.jsonl"]}))
    with pytest.raises(RunDirError, match=r"ba\.jsonl does not exist"):
        open_source(evaluation)


def test_a_bout_of_the_bare_base_names_it(evaluation: Path) -> None:
    file = evaluation.with_name("ab.jsonl")
    rows = [
        json.loads(line) | {"drafter": "base", "draft_version": "base"} for line in file.read_text().split("\n")[:-1]
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert set(unpack(render(open_source(file)), "index")["columns"]["drafter"]) == {"base"}


@pytest.mark.parametrize("line", ["[]", "torn", "{}", json.dumps({"problem_id": "p", "draft_text": None})])
def test_a_line_that_is_not_a_bout_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{line}\n{line}\n")
    with pytest.raises(RunDirError, match="not a bout"):
        list(open_source(tmp_path / "a.jsonl").bouts)


def test_a_torn_last_line_is_not_a_bout(evaluation: Path) -> None:
    file = evaluation.with_name("ab.jsonl")
    file.write_text(file.read_text()[:-9])
    assert len(list(open_source(file).bouts)) == len(BOUTS) - 1


def test_only_the_steps_asked_for(run: RunDir) -> None:
    assert {logged.row["step"] for logged in open_source(run.path, StepRange.parse("1:")).bouts} == {1}


def test_a_run_without_bouts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="no bouts"):
        list(open_source(make_match(tmp_path, steps=0).path).bouts)
