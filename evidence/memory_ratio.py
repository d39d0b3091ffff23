"""What the second policy costs in memory, at the shape of Qwen3-0.6B: counted over live tensors after a real step.

A pair over a random base in bfloat16, as the recipe has it, takes one optimizer step of the real learner, in which
both policies move; then the bytes of B's weights, gradients and Adam moments, all in float32, are added up and divided
by the bytes of the base. A second base, as in systems that train two full models, would be 100% and, with float32
masters, gradients and Adam, 900%. Activations, and what an engine holds of an adapter, are not counted.
"""

from __future__ import annotations

import random
from typing import Any

import _engine
from _lib import arguments, verdict
from agon.types import Policy

PARAMETERS, WEIGHTS, ALL = 0.02, 0.04, 0.14
"""Of the base: the most parameters, bytes of weights, and bytes of weights, gradients and Adam moments."""
ADAM = 2
"""Moments that Adam keeps for each weight."""


def main() -> None:
    args = arguments(__doc__)
    pair, gradients, moments = counted() if args.quick else measured()
    base = [p for name, p in pair.model.named_parameters() if "lora_" not in name]  # tied embeddings count once
    mine, whole = pair.parameters(Policy.B), sum(map(size, base))
    weights = sum(map(size, mine))
    found = {
        "parameters": sum(p.numel() for p in mine) / sum(p.numel() for p in base),
        "weights": weights / whole,
        "with_gradients_and_adam": (weights + gradients + moments) / whole,
    }
    goal = dict(zip(found, (PARAMETERS, WEIGHTS, ALL), strict=True))
    print(f"base in {base[0].dtype} {whole / 1e6:.0f} MB; policy B: weights {weights / 1e6:.1f} MB, ", end="")
    print(f"gradients {gradients / 1e6:.1f} MB, Adam {moments / 1e6:.1f} MB")
    print(", ".join(f"{name} {share:.2%} of the base (at most {goal[name]:.0%})" for name, share in found.items()))
    verdict(
        "memory of the second policy at Qwen3-0.6B shape, as a share of the recipe's bfloat16 base",
        {name: round(share, 4) for name, share in found.items()},
        goal,
        holds=all(share <= goal[name] for name, share in found.items()),
        counted_without_a_step=args.quick,
    )


def counted() -> tuple[Any, int, int]:
    """The pair and bytes by the shapes alone: nothing is allocated, and no step is taken."""
    import torch

    from agon.config import Init, Lora
    from agon.engine.adapters import build_pair

    with torch.device("meta"):
        pair = build_pair(base_of(_engine.QWEN3_06B), Lora(), Init(), seed=0)
    weights = sum(size(p) for p in pair.parameters(Policy.B))
    return pair, weights, ADAM * weights


def measured() -> tuple[Any, int, int]:
    """The pair after a step, and the bytes of B's gradients and Adam moments as they were."""
    learner, gradients = stepped(_engine.QWEN3_06B)
    moments = [value for p in learner.pair.parameters(Policy.B) for value in learner.optimizer.state[p].values()]
    return learner.pair, gradients, sum(map(size, moments))


def base_of(sizes: dict[str, Any]) -> Any:
    import torch

    from tests.engine.helpers.bases import random_base

    torch.set_default_dtype(torch.bfloat16)
    base = random_base("qwen3", **sizes)
    torch.set_default_dtype(torch.float32)
    return base


def stepped(sizes: dict[str, Any]) -> tuple[Any, int]:
    """A learner after one step of both policies, and the bytes of B's gradients while they lived."""
    import torch

    from agon.config import Model, Train
    from agon.engine.learner.learner import PairLearner
    from agon.engine.synthetic import random_tokens, rollout, stream

    torch.set_num_threads(1)
    learner = PairLearner(Model(name="random"), Train(warmup=0.0), total_steps=1, base=base_of(sizes))
    rng, kept = random.Random(0), []
    groups = {
        policy: [[rollout(policy, i, random_tokens(rng, 1000, 8, 8), sign) for i, sign in enumerate((1.0, -1.0))]]
        for policy in Policy
    }
    clip = learner.trainer._clip

    def counting(policy: Policy, step: int) -> Any:
        if policy is Policy.B:
            kept.append(sum(size(p.grad) for p in learner.pair.parameters(policy)))
        return clip(policy, step)

    learner.trainer._clip = counting
    while learner.step < learner.total_steps:
        learner.update([stream(policy, rows) for policy, rows in groups.items()])
    return learner, kept[0]


def size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


if __name__ == "__main__":
    main()
