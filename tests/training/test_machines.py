"""A step may learn only from rows of the versions that the learner holds, whatever drew them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agon.engine.backend import Backend
from agon.engine.scripted import ScriptedSampler
from agon.engine.synthetic import rollout, stream
from agon.errors import EngineError, InputError, VerifierError
from agon.protocols import Tokens
from agon.training import machines
from agon.training.machines import Machines
from agon.training.run import check_one_process
from agon.training.streams import check_versions
from agon.types import Policy, Request, Rollout, Version
from tests.training.helpers.runs import OneNumberLearner, Plain, Verifier, config, directory, half_right, training

VERSIONS = {policy: Version.of(policy, 7, "right") for policy in Policy}


def drawn_by(version: Version, policy: Policy) -> Rollout:
    row = rollout(policy, 0, Tokens((1,), (2,)), None)
    return replace(row, completion=replace(row.completion, version=version))


@pytest.mark.parametrize(
    "foreign", [Version("a@000006-before"), VERSIONS[Policy.B], Version("base")], ids=["late", "swapped", "base"]
)
def test_a_row_of_a_different_version_stops_the_run_by_name(foreign: Version) -> None:
    right = drawn_by(VERSIONS[Policy.A], Policy.A)
    check_versions([stream(Policy.A, [[right]])], VERSIONS)
    with pytest.raises(EngineError, match=f"drawn by {foreign}, and {VERSIONS[Policy.A]} plays this step"):
        check_versions([stream(Policy.A, [[right, drawn_by(foreign, Policy.A)]])], VERSIONS)


def test_without_a_canary_nothing_is_attested_or_measured() -> None:
    own = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), Plain())  # type: ignore[arg-type]
    assert (own.attest(VERSIONS.values()), own.attested(), own.gaps()) == ([], 0, {})


def test_the_engines_of_a_run_are_those_of_its_fleet() -> None:
    own = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), Plain())  # type: ignore[arg-type]
    assert own.engines == 0
    fleet = SimpleNamespace(sampler=SimpleNamespace(fleet=SimpleNamespace(members=[1, 2, 3])))
    assert replace(own, canary=fleet).engines == 3  # type: ignore[arg-type]


def test_what_was_opened_is_closed_where_something_else_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, closed = ScriptedSampler(half_right), list[str]()
    monkeypatch.setattr(sampler, "close", lambda: closed.append("sampler"))

    class Broken(Backend):
        def learner(self, steps: int) -> Any:
            return OneNumberLearner(steps)

        def sampler(self, context: int) -> ScriptedSampler:
            return sampler

    def broken(*args: Any, **more: Any) -> Any:
        raise VerifierError("no sandbox", fix="install it")

    monkeypatch.setattr(machines, "load_verifier", broken)
    monkeypatch.setattr(machines, "backend_of", Broken)
    with pytest.raises(VerifierError):
        machines.build(config(model__name="agon:tiny"), 1)
    assert closed == ["sampler"]


def test_a_run_stops_before_it_learns_from_a_late_row(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "x", settings)
    work = training(run, settings)
    sampler = work.machines.sampler
    assert isinstance(sampler, ScriptedSampler)
    name, first = sampler._version, dict[Policy, Version]()

    def late(request: Request) -> Version:
        version = name(request)
        if version.policy is Policy.B:
            return first.setdefault(Policy.B, version)
        return version

    sampler._version = late  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=r"drawn by b@000000-\w+, and b@00000\d-\w+ plays this step"):
        work.go()
    assert len(run.steps.records()) == work.machines.learner.step >= 1


@pytest.mark.parametrize("launched", ["2", "8"])
def test_a_run_is_one_process_and_says_what_uses_other_gpus(launched: str) -> None:
    with pytest.raises(InputError) as refused:
        check_one_process({"WORLD_SIZE": launched})
    assert all(key in refused.value.fix for key in ("sampler.replicas", "sampler.urls", "sampler.engine=tinker"))
    check_one_process({})
    check_one_process({"WORLD_SIZE": "1"})
