"""Engines and verifiers of a config with cluster.engine ray: on nodes, or here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agon.cluster import connection
from agon.engine.backend import backend_of
from agon.engine.protocol import Draw
from agon.engine.ray import door as ray_door
from agon.engine.ray.door import Ray
from agon.engine.tinker.door import Tinker
from agon.engine.vllm.door import Vllm
from agon.engine.vllm.host import HostedEngine
from agon.engine.vllm.sampler import VLLMSampler
from agon.types import BASE, Completion, Problem, Sampling
from agon.verify.on_nodes import NodeVerifier, VerifierHost
from agon_judge.sandbox.settings import SandboxSettings
from tests.cluster.helpers import FakeCluster
from tests.engine.helpers.configs import config
from tests.engine.helpers.engines import FakeEngine, save_tokenizer


class Joined(FakeCluster):
    """A cluster that notes what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.room: list[tuple[int, int, int]] = []
        self.made: list[Any] = []

    def check_room(self, cpus: int, engines: int = 0, gpus: int = 0) -> None:
        self.room.append((cpus, engines, gpus))

    def place(self, make: Any, *args: Any, gpus: int = 0) -> Any:
        self.made.append((make, *args))
        return super().place(make, *args, gpus=gpus)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Joined:
    joined = Joined()
    addresses = {("10.0.0.7:6379", "10.0.0.0/8"): joined}
    monkeypatch.setattr(connection, "connect", lambda address, network: addresses[address, network])
    return joined


def on_nodes(options: dict[str, Any] | None = None, **cluster: Any) -> Ray:
    named = {"engine": "ray", "address": "10.0.0.7:6379", **cluster}
    made = backend_of(config(sampler={"network": "10.0.0.0/8", "sleep": True, "options": options or {}}, cluster=named))
    assert isinstance(made, Ray)
    return made


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_engines_of_a_cluster_are_members_of_a_fleet(
    gpus: int, tmp_path: Path, cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def here(settings: Any, model: Any, path: str, context: int, staleness: int) -> FakeEngine:
        asked.append((settings.sleep, model.name, context, staleness))
        return FakeEngine()

    monkeypatch.setattr(ray_door, "local_engine", here)
    monkeypatch.setattr(Ray, "base", str(save_tokenizer(tmp_path)))
    sampler = on_nodes({"tensor_parallel_size": max(gpus, 1)}, samplers=3, gpus=gpus, verifiers=2).sampler(512)
    assert isinstance(sampler, VLLMSampler)
    drawn = asyncio.run(sampler.draw(Draw((1,), BASE, 0, Sampling(1.0, 1.0, 4))))
    assert drawn.ids == (7,) * 4
    sampler.close()
    assert [type(member.engine) for member in sampler.fleet.members] == [HostedEngine] * 3
    assert (cluster.room, cluster.gpus) == ([(5, 3, gpus)], [gpus] * 3)
    assert asked == [(False, "agon:tiny", 512, 0)] * 3, "a node has its memory for itself"


def test_verifiers_of_a_cluster_get_the_sandbox_of_the_config(cluster: Joined) -> None:
    backend = on_nodes(verifiers=2)
    with backend.verifier(SandboxSettings(workers=99)) as verifier:
        assert isinstance(verifier, NodeVerifier)
        answer = Completion("<think></think><answer>7</answer>", BASE, 1, 1)
        verifier.verify_many([(Problem("p", "", "7"), answer)] * 2)
        for handle in cluster.handles:
            handle.shell._object._verifier.close()
        assert cluster.made == [(VerifierHost, "math", backend.config.sandbox.settings(), 1.0)] * 2


def test_without_actors_nothing_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vllm, "sampler", lambda self, context: (self.config.sampler, context))
    backend = on_nodes(address="10.0.0.8:6379", samplers=0)
    assert backend.sampler(9) == (backend.config.sampler, 9)  # type: ignore[comparison-overlap]


def test_a_run_beside_a_cluster_learns_and_resumes_as_its_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"engine": "ray", "address": "local", "samplers": 0, "verifiers": 2}
    tinker = backend_of(config(sampler={"engine": "tinker"}, cluster=cluster))
    assert (tinker.name, tinker.trains_here) == ("ray", False)
    hf = backend_of(config(sampler={"engine": "hf"}, cluster=cluster))
    assert (hf.name, hf.trains_here, hf.all_draw) == ("ray", True, True)
    late = {"kind": "endpoint", "url": "http://localhost:1/v1", "model": "m"}
    assert config(sampler={"engine": "hf"}, cluster=cluster, rival=late).rules().wait_for_all_drafts
    monkeypatch.setattr(Tinker, "renderers", lambda self: "no weights")
    monkeypatch.setattr(Tinker, "lost", ["memory"])
    assert (tinker.renderers(), tinker.lost) == ("no weights", ["memory"])
