"""Versions: new ones for weights that moved, from folders of their own, and old folders are removed."""

from __future__ import annotations

from pathlib import Path

from agon.engine.scripted import ScriptedSampler
from agon.protocols import alone
from agon.training.machines import Machines
from agon.training.publish import Publisher
from agon.types import Policy
from tests.training.helpers.runs import OneNumberLearner, Plain, Verifier, half_right


def publisher(folder: Path) -> Publisher:
    machines = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), Plain())  # type: ignore[arg-type]
    return Publisher(machines, folder, alone)


def test_a_policy_that_did_not_move_keeps_its_version(tmp_path: Path) -> None:
    made = publisher(tmp_path)
    first = made.name({}, 0)
    assert [version.policy for version in first.values()] == list(Policy)
    made.machines.learner.weights[Policy.B] += 1.0  # type: ignore[attr-defined]
    second = made.name(first, 1)
    assert second[Policy.A] == first[Policy.A]
    assert second[Policy.B].startswith("b@000001-")


def test_folders_of_the_step_before_and_of_the_first_versions_stay(tmp_path: Path) -> None:
    made = publisher(tmp_path / "published")
    current = first = made.name({}, 0)
    made.publish(current.values(), current, first)
    for step in range(1, 5):
        made.machines.learner.weights[Policy.A] += 1.0  # type: ignore[attr-defined]
        before, current = current, made.name(current, step)
        made.publish([current[Policy.A]], current, first)
    kept = {folder.name for folder in (tmp_path / "published").iterdir()}
    assert kept == {*first.values(), *before.values(), *current.values()}
