"""Runs as a report sees them: typed, complete, and with a note on everything that was skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.errors import InputError
from agon.game.budget import Entry
from agon.report.collect import HELD_OUT, MeasuredRun, Setting, collect, spent
from agon.report.methods import cell
from agon.rundir import RunDir

from .helpers import STEPS, edit, make_study


def test_a_run_holds_what_is_on_disk(runs: list[MeasuredRun], paths: list[Path]) -> None:
    run = runs[0]
    assert (run.name, run.arm, run.seed, run.headline) == ("agon-s0", "agon", 0, "cascade")
    raw = json.loads((paths[0] / "evals" / HELD_OUT / "ab.json").read_text())
    assert run.results[HELD_OUT, "ab"].measured.correct == raw["measures"]["correct"]
    assert set(run.pairs) == {HELD_OUT}
    assert not run.notes


def test_what_training_spent_is_the_sum_of_its_ledgers(paths: list[Path]) -> None:
    spending = spent(RunDir.open(paths[0]).steps.records())
    assert spending.draft == Entry(64 * STEPS, 4000 * STEPS, 900 * STEPS)
    assert spending.challenge == Entry(64 * STEPS, 3000 * STEPS, 2000 * STEPS)
    assert (spending.steps, spending.rollouts) == (STEPS, 128 * STEPS)
    assert (spending.generated, spending.prefilled) == (7000 * STEPS, 2900 * STEPS)


def test_a_result_that_is_not_finished_is_skipped_with_a_note(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"grpo": 1})[0]
    edit(path / "evals" / HELD_OUT / "a.json", measures=None, done=7)
    (path / "evals" / HELD_OUT / "base.json").write_text("{torn")
    run = collect([path])[0]
    assert cell([run], "grpo", HELD_OUT) is None
    assert len(run.notes) == 2
    assert "a.json: 7 of 120 trials are done; run the same `agon eval` again" in run.notes[0]


@pytest.mark.parametrize("key", ["pass_rate", "length", "tokens", "problems", "outcomes"])
def test_a_file_that_does_not_validate_is_skipped_with_a_note(key: str, tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    file = path / "evals" / HELD_OUT / "ab.json"
    measures = json.loads(file.read_text())["measures"]
    del measures[key]
    edit(file, measures=measures)
    edit(path / "evals" / HELD_OUT / "pair.json", weights="heavy")
    run = collect([path])[0]
    assert (HELD_OUT, "ab") not in run.results
    assert not run.pairs
    assert [f"measures.{key}" in note or "weights" in note for note in run.notes] == [True, True]


def test_runs_of_one_name_are_named_after_their_folders(tmp_path: Path) -> None:
    paths = [make_study(tmp_path / name, {"agon": 1})[0] for name in ("one", "two")]
    assert [run.name for run in collect(paths)] == ["one/agon-s0", "two/agon-s0"]
    assert [run.name for run in collect(paths[:1])] == ["agon-s0"]
    assert [run.name for run in collect([tmp_path])] == ["one/agon-s0", "two/agon-s0"]


def test_a_matrix_is_all_of_its_runs_including_those_without_training(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    base = path.parent / "zero-shot-s0" / "evals" / HELD_OUT / "base.json"
    base.parent.mkdir(parents=True)
    (path / "evals" / HELD_OUT / "base.json").rename(base)
    runs = collect([tmp_path])
    assert [(run.name, run.arm, run.setting) for run in runs][1] == ("zero-shot-s0", "base", runs[0].setting)
    assert cell(runs, "zero-shot", HELD_OUT) is not None
    assert not runs[0].notes
    edit(base, measures=json.loads(base.read_text())["measures"] | {"outcomes": {"another problem": [True]}})
    assert "zero-shot-s0: not a run" in collect([tmp_path])[0].notes[0]


@pytest.mark.parametrize("broken", ["arm: nothing\n", "[]", "arm: [", ""])
def test_a_run_with_a_broken_config_is_refused(broken: str, tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    (path / "config.yaml").write_text(broken)
    with pytest.raises(InputError, match=r"config\.yaml"):
        collect([path])


def test_settings_differ_in_base_or_problems() -> None:
    assert Setting("a", "x") != Setting("a", "y")
    assert str(Setting("a", "x")) == "a on x"
