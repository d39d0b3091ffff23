"""An adapter is taught, and nothing but that adapter."""

from __future__ import annotations

import itertools

from _lessons import PretrainSchedule, teach
from agon.config import Init, Lora
from agon.engine.adapters import build_pair
from agon.types import Policy
from tests.engine.helpers.bases import random_base

BATCH = [((2, 3, 4), (5, 6, 7)), ((2, 3), (8, 9))]


def test_one_adapter_learns_and_base_and_rival_stay() -> None:
    base = random_base()
    pair = build_pair(base, Lora(rank=4, alpha=8), Init(), 0)
    frozen = {name: p.detach().clone() for name, p in pair.model.named_parameters() if "lora_" not in name}
    before, rival = pair.hash(Policy.A), pair.hash(Policy.B)
    losses: list[float] = []
    schedule = PretrainSchedule(steps=12, warmup=2, other_rate=0.02)
    teach(pair, Policy.A, itertools.repeat(BATCH), schedule, lambda step, loss: losses.append(loss))
    assert losses[-1] < 0.9 * losses[0]
    assert pair.hash(Policy.A) != before
    assert pair.hash(Policy.B) == rival
    assert all(p.equal(frozen[name]) for name, p in pair.model.named_parameters() if name in frozen)
