"""Lessons for one adapter over a frozen base: what A and B are taught apart before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from agon.engine.tiny.pretrain import Example, PretrainSchedule, take_lessons
from agon.types import Policy

if TYPE_CHECKING:
    from agon.engine.adapters import AdapterPair


def teach(
    pair: AdapterPair,
    policy: Policy,
    batches: Iterator[Sequence[Example]],
    schedule: PretrainSchedule,
    report: Callable[[int, float], None],
) -> None:
    """Train one adapter in place; `report` gets the step and its loss in nats per completion."""
    import torch

    pair.activate(policy)
    parameters = pair.parameters(policy)
    optimizer = torch.optim.AdamW(parameters, lr=schedule.other_rate, weight_decay=0.0)
    base = pair.model.base_model.model
    take_lessons(base, parameters, [(optimizer, schedule.other_rate)], batches, schedule, report)
