"""Versions: new ones for weights that moved, from folders of their own, and old folders are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agon.engine.scripted import ScriptedSampler
from agon.errors import EngineError
from agon.training.machines import Machines
from agon.training.publish import Publisher
from agon.types import Policy, Version
from tests.training.helpers.runs import OneNumberLearner, Plain, Verifier, half_right


def publisher(folder: Path) -> Publisher:
    machines = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), Plain())  # type: ignore[arg-type]
    return Publisher(machines, folder)


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


class Refuses:
    """A canary that finds the engine wrong; it keeps what it was asked about and what was published by then."""

    def __init__(self, sampler: ScriptedSampler) -> None:
        self.sampler, self.asked, self.published = sampler, dict[Policy, Version](), set[Version]()

    def check(self, versions: Mapping[Policy, Version]) -> None:
        self.asked, self.published = dict(versions), set(self.sampler.published)
        raise EngineError("the engine samples from a different policy", fix="report this")


def test_every_publication_is_checked_after_the_engine_has_it(tmp_path: Path) -> None:
    made = publisher(tmp_path)
    canary = Refuses(made.machines.sampler)  # type: ignore[arg-type]
    made.machines = replace(made.machines, canary=canary)  # type: ignore[arg-type]
    current = made.name({}, 0)
    with pytest.raises(EngineError, match="a different policy"):
        made.publish(current.values(), current, current)
    assert canary.asked == current
    assert canary.published >= set(current.values())


def test_first_versions_stay_live_in_an_engine_that_did_not_publish_them(tmp_path: Path) -> None:
    """After a resume the first versions are not published again: they are pinned from their folders."""
    made = publisher(tmp_path)
    first = {policy: Version.of(policy, 0, "first") for policy in Policy}
    current = made.name({}, 7)
    made.publish(current.values(), current, first)
    assert made.machines.sampler.published >= {*first.values(), *current.values()}  # type: ignore[attr-defined]
