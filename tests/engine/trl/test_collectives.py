"""Processes say nothing to each other during an update, and average gradients once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from agon.engine.synthetic import stream
from agon.engine.trl import trainer
from agon.engine.trl.collectives import average_gradients, collective, no_collectives
from agon.engine.trl.learner import TRLLearner
from agon.errors import EngineError
from agon.types import Policy, Stream

from .helpers import make_learner, masked, rows, train


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


class Threads:
    """Two threads in the place of two processes: each gets what both gave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meeting, self.given = threading.Barrier(2, timeout=60), dict[str, Any]()
        monkeypatch.setattr(Accelerator, "num_processes", 2)
        monkeypatch.setattr(Accelerator, "gather", lambda accelerator, value: self.exchange(value).flatten())
        monkeypatch.setattr(Accelerator, "reduce", lambda accelerator, value, how: self.exchange(value).mean(0))
        monkeypatch.setattr(Accelerator, "process_index", property(lambda accelerator: self.rank()))
        monkeypatch.setattr(trainer, "gather_objects", lambda accelerator, value: self.gather(value))

    def rank(self) -> int:
        last = threading.current_thread().name[-1]
        return int(last) if last.isdecimal() else 0

    def gather(self, value: Any) -> list[Any]:
        self.given[threading.current_thread().name] = value
        self.meeting.wait()
        both = [self.given[name] for name in sorted(self.given)]
        self.meeting.wait()
        return both

    def exchange(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gather(value))

    def run(self, learners: Sequence[TRLLearner], streams: Sequence[list[Stream]]) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(update, learners, streams))


def update(learner: TRLLearner, streams: list[Stream]) -> None:
    """The part of a step before the optimizer moves."""
    learner.trainer.accumulate(0, streams)


def split_streams() -> list[list[Stream]]:
    """A learns on both processes, from different numbers of rows; B on the second alone."""
    a, b = ([rows(p, n, size=3 + n, logprobs=True) for n in range(3)] for p in Policy)
    first = [stream(Policy.A, [a[0]]), stream(Policy.B, [masked(b[0])])]
    return [first, [stream(Policy.A, [a[1], a[2]]), stream(Policy.B, [b[1], masked(b[2])])]]


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_two_processes_learn_what_one_would(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, *pair = (make_learner(loss=loss, beta=0.1, tokens_per_pass=40, clip_norm=None) for _ in range(3))
    parts = split_streams()
    update(alone, [*parts[0], *parts[1]])
    Threads(monkeypatch).run(pair, parts)
    expected = alone.trainer.step_values()
    for learner in pair:
        for policy, metrics in learner.trainer.step_values().items():
            different = {"micro_batches"}  # rows are cut on each process
            assert {k: v for k, v in metrics.items() if k not in different} == pytest.approx(
                {k: v for k, v in expected[policy].items() if k not in different}, rel=1e-4
            )
            for mine, whole in zip(learner.pair.parameters(policy), alone.pair.parameters(policy), strict=True):
                assert mine.grad is not None
                torch.testing.assert_close(mine.grad, whole.grad, rtol=1e-4, atol=1e-7)


def test_a_policy_that_is_dead_on_both_processes_gets_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros would still move its Adam state."""
    pair, dead = [make_learner() for _ in range(2)], stream(Policy.B, [masked(rows(Policy.B, 0))])
    Threads(monkeypatch).run(pair, [[stream(Policy.A, [rows(Policy.A, n)]), dead] for n in range(2)])
    for learner in pair:
        assert all(p.grad is not None for p in learner.pair.parameters(Policy.A))
        assert all(p.grad is None for p in learner.pair.parameters(Policy.B))


def test_an_update_sends_nothing_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL averages what it logs over processes in every micro-batch; each would wait for the slowest process."""
    learner = make_learner(total_steps=1, tokens_per_pass=40)
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
