"""Lessons for one adapter over a frozen base: what A and B are taught apart before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from agon.engine.tiny.pretrain import Example, PretrainSchedule, completion_loss
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
    base = pair.model.base_model.model
    parameters = pair.parameters(policy)
    optimizer = torch.optim.AdamW(parameters, lr=schedule.other_rate, weight_decay=0.0)
    for step in range(schedule.steps):
        losses = []
        for _ in range(schedule.parts):
            examples = next(batches)
            loss = completion_loss(base, examples) / schedule.parts
            loss.backward()
            losses.append(loss.item() * sum(len(completion) for _, completion in examples) / len(examples))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = schedule.other_rate * schedule.factor(step)
        optimizer.step()
        optimizer.zero_grad()
        report(step, sum(losses))
