"""A tiny pair and made-up rollouts for the learner's tests."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import torch

from agon.config import Model, Train
from agon.engine.learner.learner import PairLearner
from agon.engine.synthetic import random_tokens, rollout, stream
from agon.protocols import Tokens, Update
from agon.types import Policy, Rollout, Stream
from tests.engine.helpers.bases import random_base

VOCABULARY = 64


def model_config(**fields: Any) -> Model:
    plain = {"name": "random", "dtype": "float32", "lora": {"rank": 4, "alpha": 8}, "init": {"b_noise_std": 0.02}}
    return Model.model_validate(plain | fields)


def train_config(**fields: Any) -> Train:
    return Train.model_validate(
        {"warmup": 0.0, "tokens_per_pass": 100, "max_completion_tokens": 24, "learning_rate": 1e-3} | fields
    )


def make_learner(
    total_steps: int = 4, base: Any = None, optimizer: Any = "adamw", model: Model | None = None, **train: Any
) -> PairLearner:
    base = base if base is not None else random_base(num_hidden_layers=1)
    settings = train_config(**train)
    return PairLearner(model or model_config(), settings, total_steps=total_steps, base=base, optimizer=optimizer)


def rows(policy: Policy, *names: object, size: int = 4, logprobs: bool = False) -> list[Rollout]:
    """A group of live rollouts of different lengths, the same for the same names."""
    rng = random.Random("/".join(map(str, (policy.value, *names))))
    drawn = [random_tokens(rng, VOCABULARY, rng.randrange(2, 8), rng.randrange(1, 24)) for _ in range(size)]
    if logprobs:
        drawn = [
            Tokens(t.prompt_ids, t.completion_ids, tuple(rng.uniform(-6, -3) for _ in t.completion_ids)) for t in drawn
        ]
    return [rollout(policy, i, tokens, rng.gauss(0, 1)) for i, tokens in enumerate(drawn)]


def masked(group: Iterable[Rollout]) -> list[Rollout]:
    return [rollout(row.policy, row.index, row.completion.tokens, None) for row in group]


def both(step: int, groups: int = 2, **options: Any) -> list[Stream]:
    """One live stream per policy."""
    return [stream(policy, [rows(policy, step, i, **options) for i in range(groups)]) for policy in Policy]


def train(learner: PairLearner, streams: Any = both, stop_after: int | None = None) -> list[Update]:
    """Train to the end, or until step `stop_after` is done."""
    updates: list[Update] = []
    while learner.step < learner.total_steps and not (updates and updates[-1].step == stop_after):
        updates.append(learner.update(streams(learner.step)))
    return updates


def weights(learner: PairLearner, policy: Policy) -> list[torch.Tensor]:
    return [p.detach().clone() for p in learner.pair.parameters(policy)]


def moments(learner: PairLearner, policy: Policy) -> list[torch.Tensor]:
    """Every tensor of the optimizer's state."""
    states = [learner.optimizer.state.get(p, {}) for p in learner.pair.parameters(policy)]
    return [state[key].clone() for state in states for key in sorted(state)]


def equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def distance(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, two, strict=True))
