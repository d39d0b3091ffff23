"""What the paper leaves open of loss and optimizer: every constant is named here and written to the manifest."""

from __future__ import annotations

import math
from typing import Any

from agon.config import Train

CLIP = 0.2
"""Epsilon: how far the ratio of a stale sample may be from 1, both ways."""
TRUNCATE = 3.0
"""The largest weight of a fresh sample's token, learner over sampler."""
ADAM: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
OF_TRAIN = ("loss", "beta", "importance", "staleness", "clip_norm", "temperature", "max_completion_tokens")


def loss_in_full(train: Train) -> dict[str, Any]:
    """Everything that the loss and the optimizer are made of."""
    chosen = {name: getattr(train, name) for name in OF_TRAIN}
    return {"clip": CLIP, "truncate": TRUNCATE, "kl": "k3", "optimizer": "AdamW", **ADAM, **chosen}


def learning_rate(train: Train, step: int, total: int) -> float:
    """The rate of a step: a linear warmup from 0, then the schedule down to 0, as transformers has them."""
    warmup = math.ceil(total * train.warmup)
    if step < warmup:
        return train.learning_rate * step / warmup
    done = (step - warmup) / max(1, total - warmup)
    factors = {"constant": 1.0, "linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}
    return train.learning_rate * max(0.0, factors[train.schedule])
