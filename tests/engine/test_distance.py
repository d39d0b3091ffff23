"""Distances between policies: against full updates built by hand, and against KL computed from merged weights."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from agon.config import Init, Lora
from agon.engine.adapters import build_pair
from agon.engine.distance import adapter_distance, policy_kl
from agon.engine.hf.sampler import HFSampler
from agon.engine.merge import merge
from agon.errors import RunDirError
from agon.protocols import Tokens
from agon.types import BASE, Message, Policy, Prompt, Request, Sampling, seed_for
from tests.engine.helpers.bases import random_checkpoint

Factors = list[tuple[np.ndarray, np.ndarray]]


def adapter(folder: Path, factors: Factors, dtype: torch.dtype = torch.float32) -> Path:
    """A PEFT directory of given A and B."""
    folder.mkdir()
    tensors = {
        f"base.layer{i}.lora_{part}.weight": torch.tensor(matrix).to(dtype)
        for i, pair in enumerate(factors)
        for part, matrix in zip("AB", pair, strict=True)
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    return folder


def factors(seed: int) -> Factors:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(2, 5)), rng.normal(size=(7, 2))) for _ in range(3)]


@pytest.mark.parametrize(("dtype", "loose"), [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_the_cosine_is_that_of_the_full_updates(tmp_path: Path, dtype: torch.dtype, loose: float) -> None:
    one, two = factors(0), factors(1)
    result = adapter_distance(adapter(tmp_path / "a", one, dtype), adapter(tmp_path / "b", two, dtype))
    flat = [np.concatenate([(2 * b @ a).ravel() for a, b in side]) for side in (one, two)]
    norms = [np.linalg.norm(update) for update in flat]
    assert (result.norm_a, result.norm_b) == pytest.approx(norms, rel=loose)
    assert result.cosine == pytest.approx(flat[0] @ flat[1] / np.prod(norms), abs=loose)


def test_a_zero_adapter_has_no_direction(tmp_path: Path) -> None:
    zero, some = [(np.ones((2, 5)), np.zeros((7, 2)))], [(np.ones((2, 5)), np.ones((7, 2)))]
    result = adapter_distance(adapter(tmp_path / "a", zero), adapter(tmp_path / "b", some))
    assert (result.norm_a, result.cosine) == (0, None)
    assert result.norm_b > 0


def test_float32_weights_are_read_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [adapter(tmp_path / name, factors(0)) for name in "ab"]
    monkeypatch.setitem(sys.modules, "torch", None)
    assert adapter_distance(*folders).cosine == pytest.approx(1.0)


def test_a_damaged_adapter_is_refused_before_it_is_read(tmp_path: Path) -> None:
    whole, cut = (adapter(tmp_path / name, factors(0)) for name in "ab")
    weights = cut / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(RunDirError, match="is not a LoRA adapter"):
        adapter_distance(whole, cut)
    with pytest.raises(RunDirError, match="is not a LoRA adapter"):
        policy_kl("nowhere", {Policy.A: whole, Policy.B: cut}, [], 4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[Policy, Path]]:
    """A random base, A equal to it and B away from it."""
    root = tmp_path_factory.mktemp("exported")
    base = str(random_checkpoint(root / "base"))
    pair = build_pair(AutoModelForCausalLM.from_pretrained(base), Lora(rank=4, alpha=8), Init(b_noise_std=0.2), 0)
    folders = {policy: root / policy.value for policy in Policy}
    for policy, folder in folders.items():
        pair.export(policy, folder)
    return base, folders


PROMPTS = [Prompt((Message("user", (f"How much is {n} plus {n}?",)),)) for n in range(3)]


def test_kl_is_zero_where_a_policy_is_the_base_and_positive_elsewhere(exported: tuple[str, dict[Policy, Path]]) -> None:
    result = policy_kl(*exported, PROMPTS, max_tokens=6)
    nats = result.nats_per_token
    assert set(nats) == {"KL(a || b)", "KL(b || a)", "KL(a || base)", "KL(b || base)"}
    assert nats["KL(a || base)"] == pytest.approx(0.0, abs=1e-6)
    assert nats["KL(b || base)"] == pytest.approx(nats["KL(b || a)"], rel=1e-4)
    assert min(nats["KL(a || b)"], nats["KL(b || a)"]) > 1e-3
    assert result.prompts == 3
    assert all(0 < result.tokens[policy] <= 3 * 6 for policy in Policy)


def test_kl_is_that_of_the_merged_checkpoint(exported: tuple[str, dict[Policy, Path]], tmp_path: Path) -> None:
    """B as plain weights without PEFT, on the completions that the same seeds draw."""
    base, folders = exported
    merge(base, folders[Policy.B], tmp_path)
    sampler = HFSampler(str(tmp_path))

    async def draw() -> list[Tokens]:
        requests = [
            Request(prompt, BASE, seed_for("kl", Policy.B, i), Sampling(1.0, 1.0, 6))
            for i, prompt in enumerate(PROMPTS)
        ]
        return [completion.tokens for completion in await asyncio.gather(*map(sampler.sample, requests))]

    models = [AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval() for folder in (tmp_path, base)]
    terms = []
    for row in asyncio.run(draw()):
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        with torch.no_grad():
            own, other = (model(ids).logits[0, len(row.prompt_ids) - 1 : -1].log_softmax(-1) for model in models)
        terms += (own.exp() * (own - other)).sum(-1).tolist()
    sampler.close()
    result = policy_kl(base, folders, PROMPTS, max_tokens=6)
    assert result.tokens["b"] == len(terms)
    assert result.nats_per_token["KL(b || base)"] == pytest.approx(np.mean(terms), rel=1e-3)
