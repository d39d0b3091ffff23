"""What the second policy costs in memory, at the shape of Qwen3-0.6B: counted over live tensors after a real step.

A pair over a random base takes one optimizer step of the real learner, in which both policies move; then the bytes
of B's weights, gradients and Adam moments are added up and divided by the bytes of a base in float32, the dtype in
which both are compared. A second base, as in systems that train two full models, would be 100% and, with gradients
and Adam, 400%.
"""

from __future__ import annotations

import random
from typing import Any

import _engine
from _lib import arguments, verdict
from agon.types import Policy

WEIGHTS, ALL = 0.02, 0.07
ADAM = 2
"""Moments that Adam keeps for each weight."""


def main() -> None:
    args = arguments(__doc__)
    base, weights, gradients, moments = counted() if args.quick else measured()
    whole = weights + gradients + moments
    print(f"base in float32 {base / 1e6:.0f} MB; policy B: weights {weights / 1e6:.1f} MB, ", end="")
    print(f"gradients {gradients / 1e6:.1f} MB, Adam {moments / 1e6:.1f} MB")
    print(f"weights {weights / base:.2%} of the base (at most {WEIGHTS:.0%}), ", end="")
    print(f"with gradients and Adam {whole / base:.2%} (at most {ALL:.0%})")
    verdict(
        "memory of the second policy at Qwen3-0.6B shape, of an fp32 base: weights; weights with gradients and Adam",
        [round(weights / base, 4), round(whole / base, 4)],
        [WEIGHTS, ALL],
        holds=weights / base <= WEIGHTS and whole / base <= ALL,
        counted_without_a_step=args.quick,
    )


def counted() -> tuple[int, int, int, int]:
    """The shapes alone: nothing is allocated, and no step is taken."""
    import torch

    from agon.config import Init, Lora
    from agon.engine.adapters import build_pair
    from agon.engine.synthetic import random_base

    with torch.device("meta"):
        pair = build_pair(random_base("qwen3", **_engine.QWEN3_06B), Lora(), Init(), seed=0)
    weights = sum(size(p) for p in pair.parameters(Policy.B))
    return base_size(pair), weights, weights, ADAM * weights


def measured() -> tuple[int, int, int, int]:
    """Live tensors after a step."""
    learner, gradients = stepped(_engine.QWEN3_06B)
    mine = learner.pair.parameters(Policy.B)
    moments = [value for p in mine for value in learner.optimizer.state[p].values()]
    return base_size(learner.pair), sum(map(size, mine)), gradients, sum(map(size, moments))


def base_size(pair: Any) -> int:
    """Bytes of the base in float32; tied embeddings count once."""
    return 4 * sum(p.numel() for name, p in pair.model.named_parameters() if "lora_" not in name)


def stepped(sizes: dict[str, Any]) -> tuple[Any, int]:
    """A learner after one step of both policies, and the bytes of B's gradients while they lived."""
    import torch

    from agon.config import Model, Train
    from agon.engine.synthetic import random_base, random_tokens, rollout, stream
    from agon.engine.trl.learner import TRLLearner

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.bfloat16)
    base = random_base("qwen3", **sizes)
    torch.set_default_dtype(torch.float32)
    learner = TRLLearner(Model(name="random"), Train(warmup=0.0), total_steps=1, base=base)
    rng, kept = random.Random(0), []
    groups = {
        policy: [[rollout(policy, i, random_tokens(rng, 1000, 8, 8), sign) for i, sign in enumerate((1.0, -1.0))]]
        for policy in Policy
    }
    clip = learner.trainer._clip

    def counting(policy: Policy) -> Any:
        if policy is Policy.B:
            kept.append(sum(size(p.grad) for p in learner.pair.parameters(policy)))
        return clip(policy)

    learner.trainer._clip = counting
    learner.fit(lambda step: [stream(policy, rows) for policy, rows in groups.items()], lambda update: True)
    return learner, kept[0]


def size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


if __name__ == "__main__":
    main()
