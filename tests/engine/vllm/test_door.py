"""Which engines a config names, and who draws from them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agon.config import Model, SamplerConfig
from agon.engine.vllm.door import Vllm
from agon.engine.vllm.placement import GpuMemory
from tests.engine.helpers.configs import config

Built = Callable[..., list[Any]]


def made(make: Callable[[], Any], device: str | None) -> Any:
    """What would be built in a process of its own."""
    engine = pickle.loads(pickle.dumps(make))()  # noqa: S301 - as it crosses
    engine.device = device
    return engine


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """The engines that a config asks for; they are not started here."""
    monkeypatch.setattr("agon.engine.vllm.sampler.VLLMSampler", lambda path, fleet, **more: fleet)
    monkeypatch.setattr("agon.engine.vllm.local.LocalEngine", lambda path, **settings: SimpleNamespace(**settings))
    monkeypatch.setattr("agon.engine.vllm.host.in_own_process", made)

    def engines(beside: GpuMemory | None = None, **settings: object) -> list[Any]:
        sampler: Any = Vllm.open_sampler(
            SamplerConfig.model_validate(settings), Model(name="x"), "x", 100, beside=beside
        )
        return [member.engine for member in sampler.members]

    return engines


def test_a_config_names_the_engines_of_a_fleet(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.engine.vllm.door.visible_devices", lambda: ["4", "5", "6"])
    assert [engine.device for engine in built(replicas=2)] == ["5", "6"]
    assert [engine.device for engine in built()] == ["4", "5", "6"], "without a learner, all GPUs"
    assert {engine.memory for engine in built()} == {0.9}
    beside = GpuMemory(free=60 * 2**30, total=80 * 2**30)
    [shared] = built(beside)
    assert (shared.device, shared.memory, shared.sleeps) == ("6", 0.9, False), "the learner is on another GPU"
    assert [engine.sleeps for engine in built(beside, replicas=3)] == [True, False, False]
    assert [engine.memory for engine in built(beside, replicas=3)] == pytest.approx([58 / 80, 0.9, 0.9])
    urls = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert [engine.url for engine in built(urls=urls)] == urls


def test_engines_that_are_split_share_out_the_gpus(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.engine.vllm.door.visible_devices", lambda: list("01234567"))
    halves = {"options": {"tensor_parallel_size": 2}}
    assert [engine.device for engine in built(**halves)] == ["0,1", "2,3", "4,5", "6,7"]
    assert [engine.device for engine in built(**halves, replicas=1)] == ["6,7"]
    assert built(**halves)[0].options == halves["options"]
    beside = GpuMemory(free=60 * 2**30, total=80 * 2**30)
    [engine] = built(beside, **halves)
    assert (engine.device, engine.memory, engine.sleeps) == ("6,7", 0.9, False)
    engines = built(beside, **halves, replicas=4)
    assert [engine.memory for engine in engines] == pytest.approx([58 / 80, 0.9, 0.9, 0.9])
    assert [engine.sleeps for engine in engines] == [True, False, False, False]
    monkeypatch.setattr("agon.engine.vllm.door.visible_devices", lambda: ["0", "1"])
    [engine] = built(beside, **halves)
    assert (engine.device, engine.memory) == ("0,1", pytest.approx(58 / 80)), "one of its GPUs has the learner"


def test_engines_of_a_run_that_plays_ahead_do_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(cls: type, settings: SamplerConfig, *args: Any, staleness: int, beside: Any, gpus: int) -> Any:
        return settings.sleep, staleness

    monkeypatch.setattr(Vllm, "open_sampler", classmethod(opened))
    assert Vllm(config(train={"staleness": 2})).sampler(9) == (False, 2)  # type: ignore[comparison-overlap]
    assert Vllm(config(sampler={"sleep": True})).sampler(9) == (True, 0)  # type: ignore[comparison-overlap]
