"""A step may learn only from rows of the versions that the learner holds, whatever drew them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agon.config import SamplerConfig
from agon.engine.scripted import ScriptedSampler
from agon.engine.synthetic import rollout, stream
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.sandbox import SandboxSettings
from agon.training.machines import Machines, check_versions, own_share
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


def test_rows_are_compared_for_every_sampler_and_without_a_canary_nothing_else() -> None:
    machines = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), Plain())  # type: ignore[arg-type]
    streams = [stream(policy, [[drawn_by(VERSIONS[policy], policy)]]) for policy in Policy]
    assert machines.check_samples(streams, VERSIONS) == []
    assert machines.slopes() == {}
    with pytest.raises(EngineError, match="drawn by b@000007-right"):
        machines.check_samples([stream(Policy.A, [[drawn_by(VERSIONS[Policy.B], Policy.B)]])], VERSIONS)


def test_processes_of_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    hf, vllm = SamplerConfig(engine="hf"), SamplerConfig(engine="vllm")
    assert own_share(SandboxSettings(), hf).workers == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert own_share(SandboxSettings(), hf).workers == 2
    assert own_share(SandboxSettings(), vllm).workers == 16, "one process draws for all"
    assert own_share(SandboxSettings(workers=5), hf).workers == 5
    assert own_share(SandboxSettings("http", url="http://h"), hf).workers is None
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "64")
    assert own_share(SandboxSettings(), hf).workers == 1


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
