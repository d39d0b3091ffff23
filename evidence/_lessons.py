"""How the tiny bases and their readers are taught: next-token loss on completions alone, for a few hundred steps.

Muon moves the matrices and AdamW the rest: copying and the facts are learnt in a fifth of the steps that AdamW alone
takes. Needs torch 2.9 or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agon.types import Policy

if TYPE_CHECKING:
    from agon.engine.adapters import AdapterPair

Example = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt ids and completion ids."""

IGNORED = -100


@dataclass(frozen=True)
class PretrainSchedule:
    """Steps, batch sizes and learning rates; written beside the checkpoint."""

    steps: int = 700
    parts: int = 2
    """Batches per step: each holds lessons of one length, so a step needs more than one."""
    batch: int = 24
    matrix_rate: float = 0.02
    other_rate: float = 0.003
    warmup: int = 20
    decay: float = 0.6
    """Share of the steps, at the end, over which both rates fall to zero."""

    def factor(self, step: int) -> float:
        """The factor of both rates at a step."""
        return min(1.0, (step + 1) / self.warmup, (self.steps - step) / (self.steps * self.decay))


def pretrain(
    model: Any, batches: Iterator[Sequence[Example]], schedule: PretrainSchedule, report: Callable[[int, float], None]
) -> None:
    """Train `model` in place; `report` gets the step and its loss in nats per completion."""
    model.train()
    take_lessons(model, list(model.parameters()), _optimizers(model, schedule), batches, schedule, report)
    model.eval()


def take_lessons(
    model: Any,
    parameters: Sequence[Any],
    optimizers: Sequence[tuple[Any, float]],
    batches: Iterator[Sequence[Example]],
    schedule: PretrainSchedule,
    report: Callable[[int, float], None],
) -> None:
    """Move some parameters of `model` with optimizers, each with its peak rate; see `pretrain`."""
    for step in range(schedule.steps):
        losses = []
        for _ in range(schedule.parts):
            examples = next(batches)
            loss = completion_loss(model, examples) / schedule.parts
            loss.backward()
            losses.append(loss.item() * sum(len(completion) for _, completion in examples) / len(examples))
        _step(parameters, optimizers, schedule.factor(step))
        report(step, sum(losses))


def completion_loss(model: Any, examples: Sequence[Example]) -> Any:
    """Mean cross-entropy of the completion tokens. Padding is on the right, so that no row attends to it."""
    import torch
    from torch.nn.functional import cross_entropy

    longest = max(len(prompt) + len(completion) for prompt, completion in examples)
    first = min(len(prompt) for prompt, _ in examples) - 1
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
    targets = torch.full((len(examples), longest), IGNORED)
    for row, (prompt, completion) in enumerate(examples):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        targets[row, len(prompt) : end] = torch.tensor(completion)
    hidden = model.model(ids[:, :-1]).last_hidden_state[:, first:]
    return cross_entropy(model.lm_head(hidden).flatten(0, 1), targets[:, first + 1 :].flatten(), ignore_index=IGNORED)


def _optimizers(model: Any, schedule: PretrainSchedule) -> list[tuple[Any, float]]:
    import torch

    parameters = dict(model.named_parameters())
    matrices = [value for name, value in parameters.items() if value.ndim == 2 and "embed" not in name]
    others = [value for name, value in parameters.items() if value.ndim != 2 or "embed" in name]
    muon = torch.optim.Muon(matrices, lr=schedule.matrix_rate, weight_decay=0.01)
    adam = torch.optim.AdamW(others, lr=schedule.other_rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [(muon, schedule.matrix_rate), (adam, schedule.other_rate)]


def _step(parameters: Sequence[Any], optimizers: Sequence[tuple[Any, float]], factor: float) -> None:
    import torch

    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        optimizer.step()
        optimizer.zero_grad()


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
