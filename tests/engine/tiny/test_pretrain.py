"""Pretraining: the loss is the model's own on completions, and it falls."""

from __future__ import annotations

import torch

from _lessons import IGNORED, PretrainSchedule, completion_loss, pretrain
from tests.engine.helpers.bases import random_base


def test_the_loss_of_pretraining_is_the_models_own_loss_on_completions() -> None:
    model = random_base("qwen3", vocab_size=64).eval()
    examples = [((1, 2, 3), (4, 5, 6, 7)), ((8, 9), (10, 11)), ((12, 13, 14, 15), (16,))]
    total = torch.tensor(0.0)
    for prompt, completion in examples:
        labels = torch.tensor([[IGNORED] * len(prompt) + list(completion)])
        total += model(torch.tensor([prompt + completion]), labels=labels).loss * len(completion)
    assert torch.allclose(completion_loss(model, examples), total / 7, atol=1e-5)


def test_pretraining_learns_a_repeated_example() -> None:
    model = random_base("qwen3", vocab_size=64)
    losses: list[float] = []
    examples = [((1, 2, 3), (4, 5, 6, 7))] * 4
    pretrain(
        model, iter(lambda: examples, None), PretrainSchedule(steps=80, warmup=3), lambda _, loss: losses.append(loss)
    )
    assert losses[-1] < 0.2 * losses[0]
    assert not model.training
