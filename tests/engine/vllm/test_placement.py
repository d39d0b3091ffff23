"""How much of a GPU an engine takes, by what else is on it."""

from __future__ import annotations

import pytest
import torch

from agon.config import SamplerConfig
from agon.engine.vllm.placement import ALONE, BESIDE, MARGIN, GpuMemory, Placement, placement_of

GIB = 2**30
LEARNER = GpuMemory(free=20 * GIB, total=24 * GIB)


def placed(beside: GpuMemory | None = LEARNER, **settings: object) -> Placement:
    return placement_of(SamplerConfig.model_validate(settings), beside)


def test_beside_a_learner_it_sleeps_and_takes_what_is_free() -> None:
    assert placed() == Placement(18 / 24, sleeps=True)


def test_without_sleep_it_leaves_half_to_the_learner() -> None:
    assert placed(sleep=False) == Placement(BESIDE, sleeps=False)


def test_alone_it_takes_most_of_the_gpu_and_does_not_sleep() -> None:
    assert placed(None) == Placement(ALONE, sleeps=False)


def test_what_the_config_names_is_taken() -> None:
    assert placed(gpu_memory_utilization=0.3) == Placement(0.3, sleeps=True)
    assert placed(gpu_memory_utilization=0.3, sleep=False) == Placement(0.3, sleeps=False)
    assert placed(None, sleep=True).sleeps


def test_a_share_leaves_a_margin_and_is_never_negative() -> None:
    assert GpuMemory(24 * GIB, 24 * GIB).share == ALONE
    assert GpuMemory(10 * GIB, 24 * GIB).share == (10 * GIB - MARGIN) / (24 * GIB)
    assert GpuMemory(GIB, 24 * GIB).share == 0.0


def test_memory_is_that_of_the_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert GpuMemory.here() is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (20 * GIB, 24 * GIB))
    assert GpuMemory.here() == LEARNER
