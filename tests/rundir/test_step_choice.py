"""A step of a run by number or by name, and the pair that its checkpoint holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agon.errors import AgonError, InputError
from agon.rundir import RunDir
from agon.rundir.records import Point, best_point
from agon.types import Direction, Policy
from tests.training.helpers.records import counts
from tests.training.helpers.runs import config, directory, training


def point(step: int, score: float, direction: Direction = Direction.AB) -> Point:
    return Point(step=step, direction=direction, score=score, systems={"a": counts(10, 1)})


POINTS = [point(0, 0.1), point(3, 0.5, Direction.BA), point(6, 0.5)]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps that keeps checkpoints 0, 3, 4 and 6; step 3 is the best on dev."""
    run = directory(tmp_path_factory.mktemp("runs"), "x", settings := config())
    assert training(run, settings).go()
    run.write_points(POINTS)
    return run.path


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> RunDir:
    return RunDir.open(Path(shutil.copytree(ended, tmp_path / "run")))


def test_the_best_point_is_the_earliest_of_the_highest() -> None:
    assert best_point(POINTS) == POINTS[1]
    assert best_point([]) is None


@pytest.mark.parametrize(("step", "number"), [("last", 6), ("best", 3), (4, 4), (0, 0)])
def test_a_step_is_named_or_numbered(run: RunDir, step: object, number: int) -> None:
    pair = run.pair_at(step)  # type: ignore[arg-type]
    assert pair.info.step == number
    assert pair.adapter(Policy.A) == run.checkpoints / f"step_{number:06d}" / "a"
    assert pair.info.versions == run.saved_state(number).run.versions


def test_the_direction_is_what_dev_chose_at_the_step_or_last_before_it(run: RunDir) -> None:
    chosen = {step: (run.pair_at(step).info.direction, run.pair_at(step).info.dev_score) for step in (0, 3, 4, 6)}
    assert chosen == {
        0: (Direction.AB, 0.1),
        3: (Direction.BA, 0.5),
        4: (Direction.BA, None),
        6: (Direction.AB, 0.5),
    }


def test_a_step_without_a_checkpoint_is_refused_with_those_that_have_one(run: RunDir) -> None:
    with pytest.raises(InputError, match="no checkpoint of step 2") as caught:
        run.step_number(2)
    assert caught.value.fix == "choose from: 0, 3 (best), 4, 6 (last)"


def test_a_run_that_was_never_evaluated_has_no_best_step(run: RunDir) -> None:
    (run.path / "points.json").unlink()
    with pytest.raises(InputError, match="nothing was evaluated on dev") as caught:
        run.step_number("best")
    assert caught.value.fix == "choose from: 0, 3, 4, 6 (last)"
    assert run.pair_at("last").info.direction is None


def test_a_run_without_checkpoints_says_how_to_train_it(run: RunDir) -> None:
    shutil.rmtree(run.checkpoints)
    with pytest.raises(InputError, match="has no checkpoint") as caught:
        run.step_number("last")
    assert "--resume" in caught.value.fix


def test_a_damaged_checkpoint_is_refused(run: RunDir) -> None:
    weights = run.checkpoints / "step_000004" / "b" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(AgonError, match=r"step_000004: b.adapter_model.* is damaged") as caught:
        run.pair_at(4)
    assert caught.value.fix.endswith("choose from: 0, 3, 4, 6 (last)")


def test_a_checkpoint_that_is_a_link_is_refused(run: RunDir, tmp_path: Path) -> None:
    folder = run.checkpoints / "step_000004"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AgonError, match="is a link"):
        run.pair_at(4)
