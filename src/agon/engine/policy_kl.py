"""How far apart policies are in what they would say: KL over the whole vocabulary, token by token, in torch.

KL(P || Q) is taken on completions of P, at every position, and averaged over tokens. It needs the base in memory once;
both adapters are loaded over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from agon.engine.hf import HFSampler
from agon.protocols import Tokens
from agon.types import BASE, Policy, Prompt, Request, Sampling, seed_for

Drawn = Mapping[str, Sequence[Tokens]]


def policy_divergence(
    base_path: str, adapters: Mapping[str, Path], prompts: Sequence[Prompt], max_tokens: int
) -> dict[str, Any]:
    """KL in nats per token between the adapters, and from each to the base, each on its own completions."""
    sampler = HFSampler(base_path)
    try:
        for name, folder in adapters.items():
            sampler.publish(Policy(name), f"{name}@kl", folder)
        drawn = {name: asyncio.run(_draw(sampler, Policy(name), prompts, max_tokens)) for name in adapters}
    finally:
        sampler.close()
    model = _load(base_path, adapters)
    pairs = [*permutations(sorted(adapters), 2), *((name, BASE) for name in sorted(adapters))]
    found = {f"KL({p} || {q})": _kl(model, p, q, drawn[p]) for p, q in pairs}
    tokens = {name: sum(len(row.completion_ids) for row in rows) for name, rows in drawn.items()}
    return {"nats_per_token": found, "prompts": len(prompts), "tokens": tokens}


async def _draw(sampler: HFSampler, policy: Policy, prompts: Sequence[Prompt], max_tokens: int) -> list[Tokens]:
    sampling = Sampling(1.0, 1.0, max_tokens)
    asked = [Request(prompt, policy, seed_for("kl", policy, i), sampling) for i, prompt in enumerate(prompts)]
    return [completion.tokens for completion in await asyncio.gather(*map(sampler.sample, asked))]


def _load(base_path: str, adapters: Mapping[str, Path]) -> Any:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base_path, dtype="float32", trust_remote_code=False)
    (first, folder), *rest = adapters.items()
    pair = PeftModel.from_pretrained(model, folder, adapter_name=first)
    for name, other in rest:
        pair.load_adapter(str(other), name)
    return pair.eval()


def _kl(model: Any, p: str, q: str, rows: Sequence[Tokens]) -> float:
    total = tokens = 0.0
    for row in rows:
        ours, theirs = _logps(model, p, row), _logps(model, q, row)
        total += float((ours.exp() * (ours - theirs)).sum())
        tokens += len(row.completion_ids)
    return total / tokens if tokens else 0.0


def _logps(model: Any, name: str, row: Tokens) -> Any:
    """Log-probabilities of every next token, at the positions of the completion."""
    import torch

    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    with torch.inference_mode():
        if name == BASE:
            with model.disable_adapter():
                logits = model(ids).logits
        else:
            model.set_adapter(name)
            logits = model(ids).logits
    return torch.log_softmax(logits[0, len(row.prompt_ids) - 1 : -1].float(), dim=-1)
