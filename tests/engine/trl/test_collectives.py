"""Processes say nothing to each other during an update, and average gradients once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from agon.engine.trl.collectives import average_gradients, collective, no_collectives
from agon.errors import EngineError
from agon.types import Policy

from .helpers import make_learner, train


class TwoProcesses:
    """An accelerator whose other process has gradients of three."""

    num_processes = 2

    def __init__(self) -> None:
        self.messages = 0

    def reduce(self, tensor: torch.Tensor, reduction: str) -> torch.Tensor:
        assert reduction == "mean"
        self.messages += 1
        return (tensor + 3.0) / 2


def test_gradients_are_averaged_in_one_message_and_a_missing_one_counts_as_zero() -> None:
    accelerator = TwoProcesses()
    live, dead = nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(4))
    live.grad = torch.ones(2, 3)
    average_gradients(accelerator, [live, dead])
    assert accelerator.messages == 1
    assert torch.equal(live.grad, torch.full((2, 3), 2.0))
    assert dead.grad is not None
    assert torch.equal(dead.grad, torch.full((4,), 1.5))


def test_an_update_sends_nothing_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL averages what it logs over processes in every micro-batch; each would wait for the slowest process."""
    learner = make_learner(total_steps=1, micro_batch=2)
    sent: list[str] = []
    inside = False
    for name in ("gather", "gather_for_metrics", "reduce"):
        original = getattr(type(learner.trainer.accelerator), name)

        def watched(self: Any, *args: Any, original: Any = original, name: str = name, **more: Any) -> Any:
            if inside:
                sent.append(name)
            return original(self, *args, **more)

        monkeypatch.setattr(type(learner.trainer.accelerator), name, watched)
    step = learner.trainer._micro_step

    def micro_step(micro: Any) -> Any:
        nonlocal inside
        inside = True
        try:
            return step(micro)
        finally:
            inside = False

    monkeypatch.setattr(learner.trainer, "_micro_step", micro_step)
    train(learner)
    assert sent == []


def test_collectives_are_back_after_an_error() -> None:
    accelerator = make_learner(total_steps=1).trainer.accelerator

    def fail() -> None:
        with no_collectives(accelerator):
            assert accelerator.gather("own value") == "own value"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "gather" not in vars(accelerator)


def test_a_message_that_fails_is_an_error_of_ours() -> None:
    with pytest.raises(EngineError, match="may be gone: connection closed by peer"), collective():
        raise RuntimeError("connection closed by peer")


def test_the_model_is_not_wrapped_in_ddp() -> None:
    """DDP would average gradients during the backward pass, where a process that failed leaves the others waiting."""
    learner = make_learner(total_steps=1)
    train(learner)
    assert learner.trainer.model_wrapped is learner.pair.model
    assert learner.trainer.accelerator.prepare_model.keywords == {"evaluation_mode": True}  # type: ignore[attr-defined]
    assert all(p.grad is None for policy in Policy for p in learner.pair.parameters(policy))
