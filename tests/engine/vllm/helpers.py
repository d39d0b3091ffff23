"""A learner and adapters for canaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from agon.engine.vllm.sampler import VLLMSampler
from agon.protocols import Tokens
from agon.types import Policy, Version
from tests.engine.helpers.engines import WEIGHTS


def weighted_adapters(folder: Path) -> Path:
    """Folders whose weights are what the fake engine takes their names for; `zero` is zero."""
    for name, value in {**WEIGHTS, "zero": 0.0}.items():
        (folder / name).mkdir()
        (folder / name / "adapter_config.json").write_text("{}")
        tensors = {"x.lora_A.weight": torch.ones(2, 3), "x.lora_B.weight": torch.full((3, 2), value)}
        save_file(tensors, folder / name / "adapter_model.safetensors")
    return folder


class FakeLearner:
    """As much of a learner as the canary asks for: each policy shifts the base's -1 by its weight."""

    def __init__(self, **weights: float) -> None:
        self.weights, self.noise, self.calls = weights, 1e-6, 0

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        self.calls += 1
        shift = self.weights[policy.value] if policy else 0.0
        return [[-1.0 - shift - self.noise] * len(row.completion_ids) for row in rows]


def published(sampler: VLLMSampler, adapters: Path, a: str, b: str) -> dict[Policy, Version]:
    versions = {Policy.A: Version(f"a@0-{a}"), Policy.B: Version(f"b@0-{b}")}
    sampler.publish(versions[Policy.A], adapters / a)
    sampler.publish(versions[Policy.B], adapters / b)
    return versions
