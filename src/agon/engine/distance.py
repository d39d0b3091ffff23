"""How far apart two policies are: in their weights, and in what they would write.

In weights: the update of a layer is scale * B A. The cosine of two updates is taken over all layers together, from
products of rank size, <B1 A1, B2 A2> = sum((B1^T B2) * (A1 A2^T)), so that no full matrix is built. This needs numpy
alone; torch only reads files in bfloat16, which numpy does not know.

In what they would write: KL(P || Q) on completions of P, over the whole vocabulary at every position, averaged over
tokens. The base is in memory once, with both adapters loaded over it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from agon.bridge import Runner
from agon.engine.hf.sampler import HFSampler
from agon.engine.safe_load import add_adapter, load_model
from agon.protocols import Tokens
from agon.rundir.adapter import WEIGHTS, check_adapter
from agon.rundir.results import AdapterDistance, PolicyKL
from agon.types import BASE, Policy, Prompt, Request, Sampling, Seat, Version, seed_for

Array = np.ndarray[Any, np.dtype[np.float64]]
Layers = Mapping[str, tuple[Array, Array]]
"""A and scaled B by layer."""


def adapter_distance(a: Path, b: Path) -> AdapterDistance:
    """Norms of both updates and the cosine between them; no cosine where one of them is zero."""
    one, two = _layers(a), _layers(b)
    norm_a, norm_b = (math.sqrt(max(0.0, _inner(side, side))) for side in (one, two))
    cosine = _inner(one, two) / (norm_a * norm_b) if norm_a and norm_b else None
    return AdapterDistance(cosine=cosine, norm_a=norm_a, norm_b=norm_b)


def policy_kl(base_path: str, adapters: Mapping[Policy, Path], prompts: Sequence[Prompt], max_tokens: int) -> PolicyKL:
    """KL in nats per token between the policies, and from each to the base, each on its own completions."""
    for folder in adapters.values():
        check_adapter(folder)
    drawn = _draw(base_path, adapters, prompts, max_tokens)
    model = _load(base_path, adapters)
    pairs: list[tuple[Policy, Seat]] = [*permutations(adapters, 2), *((policy, BASE) for policy in adapters)]
    return PolicyKL(
        nats_per_token={f"KL({p} || {q})": _kl(model, p, q, drawn[p]) for p, q in pairs},
        prompts=len(prompts),
        tokens={policy: sum(len(row.completion_ids) for row in rows) for policy, rows in drawn.items()},
    )


def _inner(one: Layers, two: Layers) -> float:
    """The inner product of two updates over the layers that both have."""
    common = sorted(one.keys() & two.keys())
    return float(sum(((one[k][1].T @ two[k][1]) * (one[k][0] @ two[k][0].T)).sum() for k in common))


def _layers(folder: Path) -> Layers:
    settings = check_adapter(folder)
    scale = settings.lora_alpha / (math.sqrt(settings.r) if settings.use_rslora else settings.r)
    tensors = _tensors(folder / WEIGHTS)
    names = {name.replace(".lora_A.", ".lora_B."): name for name in tensors if ".lora_A." in name}
    return {down: (tensors[up], scale * tensors[down]) for down, up in names.items() if down in tensors}


def _tensors(path: Path) -> dict[str, Array]:
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        names = list(file.keys())
        if all(file.get_slice(name).get_dtype() != "BF16" for name in names):
            return {name: file.get_tensor(name).astype(np.float64) for name in names}
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).double().numpy() for name in names}


def _draw(
    base_path: str, adapters: Mapping[Policy, Path], prompts: Sequence[Prompt], max_tokens: int
) -> dict[Policy, list[Tokens]]:
    """One completion of every prompt by every policy."""
    sampling, sampler = Sampling(1.0, 1.0, max_tokens), HFSampler(base_path)

    async def completions(policy: Policy) -> list[Tokens]:
        requests = [Request(prompt, policy, seed_for("kl", policy, i), sampling) for i, prompt in enumerate(prompts)]
        return [completion.tokens for completion in await asyncio.gather(*map(sampler.sample, requests))]

    try:
        for policy, folder in adapters.items():
            sampler.publish(Version.of(policy, 0, "kl"), folder)
        with Runner() as runner:
            return {policy: runner.run(completions(policy)) for policy in adapters}
    finally:
        sampler.close()


def _load(base_path: str, adapters: Mapping[Policy, Path]) -> Any:
    model = load_model(base_path, "float32")
    for policy, folder in adapters.items():
        model = add_adapter(model, folder, policy.value)
    return model.eval()


def _kl(model: Any, p: Policy, q: Seat, rows: Sequence[Tokens]) -> float:
    total = tokens = 0.0
    for row in rows:
        own, other = _logps(model, p, row), _logps(model, q, row)
        total += float((own.exp() * (own - other)).sum())
        tokens += len(row.completion_ids)
    return total / tokens if tokens else 0.0


def _logps(model: Any, seat: Seat, row: Tokens) -> Any:
    """Log-probabilities of every next token, at the positions of the completion."""
    import torch

    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    with torch.inference_mode():
        if isinstance(seat, Policy):
            model.set_adapter(seat.value)
            logits = model(ids).logits
        else:
            with model.disable_adapter():
                logits = model(ids).logits
    return torch.log_softmax(logits[0, len(row.prompt_ids) - 1 : -1].float(), dim=-1)
