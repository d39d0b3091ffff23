"""Which machines a config names: here, or on the nodes of a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agon.cluster import connection
from agon.config import Config
from agon.engine import places
from agon.engine.places import sampler_for, verifier_for
from agon.engine.protocol import Draw
from agon.engine.vllm.on_node import NodeEngine
from agon.engine.vllm.sampler import VLLMSampler
from agon.types import BASE, Completion, Problem, Sampling
from agon.verify.on_nodes import NodeVerifier, VerifierHost
from agon_judge.sandbox.settings import SandboxSettings
from tests.cluster.helpers import FakeCluster
from tests.engine.helpers.engines import FakeEngine, save_tokenizer


class Joined(FakeCluster):
    """A cluster that notes what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.room: list[tuple[int, int]] = []
        self.made: list[Any] = []

    def check_room(self, cpus: int, gpus: int) -> None:
        self.room.append((cpus, gpus))

    def place(self, make: Any, *args: Any, gpus: int = 0) -> Any:
        self.made.append((make, *args))
        return super().place(make, *args, gpus=gpus)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Joined:
    joined = Joined()
    addresses = {("10.0.0.7:6379", "10.0.0.0/8"): joined}
    monkeypatch.setattr(connection, "connect", lambda address, network: addresses[address, network])
    return joined


def config(**cluster: Any) -> Config:
    data = {part: {"preset": "tabletop", "take": 3} for part in ("train", "dev", "held_out")}
    values = {"arm": "agon", "model": {"name": "agon:tiny"}, "data": data, "verifier": "math"}
    sampler = {"network": "10.0.0.0/8", "sleep": True}
    return Config.model_validate(values | {"sampler": sampler, "cluster": cluster})


def test_engines_of_a_cluster_are_members_of_a_fleet(
    tmp_path: Path, cluster: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def here(settings: Any, model: Any, path: str, context: int, staleness: int) -> FakeEngine:
        asked.append((settings.sleep, model.name, context, staleness))
        return FakeEngine()

    monkeypatch.setattr(places, "local_engine", here)
    told = config(engine="ray", address="10.0.0.7:6379", samplers=3, gpus=1, verifiers=2)
    sampler = sampler_for(told, str(save_tokenizer(tmp_path)), 512)
    assert isinstance(sampler, VLLMSampler)
    drawn = asyncio.run(sampler.draw(Draw((1,), BASE, 0, Sampling(1.0, 1.0, 4))))
    assert drawn.ids == (7,) * 4
    sampler.close()
    assert [type(member.engine) for member in sampler.fleet.members] == [NodeEngine] * 3
    assert (cluster.room, cluster.gpus) == ([(5, 3)], [1, 1, 1])
    assert asked == [(False, "agon:tiny", 512, 0)] * 3, "a node has its memory for itself"


def test_verifiers_of_a_cluster_get_the_sandbox_of_the_config(cluster: Joined) -> None:
    told = config(engine="ray", address="10.0.0.7:6379", verifiers=2)
    with verifier_for(told, SandboxSettings(workers=99)) as verifier:
        assert isinstance(verifier, NodeVerifier)
        answer = Completion("<think></think><answer>7</answer>", BASE, 1, 1)
        verifier.verify_many([(Problem("p", "", "7"), answer)] * 2)
        for handle in cluster.handles:
            handle.shell._object._verifier.close()
        assert cluster.made == [(VerifierHost, "math", told.sandbox.settings())] * 2


def test_without_actors_nothing_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "build_sampler", lambda *args, beside, staleness: (*args, beside, staleness))
    for told in (config(), config(engine="ray", address="10.0.0.8:6379", samplers=0)):
        assert sampler_for(told, "path", 9) == (told.sampler, told.model, "path", 9, (), 0)  # type: ignore[comparison-overlap]


def test_engines_of_a_run_that_plays_ahead_do_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "build_sampler", lambda settings, *args, **more: (settings.sleep, more["staleness"]))
    plain = config()
    ahead = plain.model_copy(
        update={
            "train": plain.train.model_copy(update={"staleness": 2}),
            "sampler": plain.sampler.model_copy(update={"sleep": "auto"}),
        }
    )
    assert sampler_for(ahead, "path", 9) == (False, 2)  # type: ignore[comparison-overlap]
    assert sampler_for(plain, "path", 9) == (True, 0)  # type: ignore[comparison-overlap]
