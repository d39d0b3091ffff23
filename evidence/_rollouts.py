"""Fixed completions for the learner's evidence: the same on every machine, process and run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agon.config import Lora, Model, Train
from agon.engine.synthetic import random_tokens
from agon.game.advantage import advantages
from agon.protocols import Tokens

VOCABULARY = 64


def model_config(**fields: Any) -> Model:
    """A rank-4 pair in float32; B starts well away from A, so that a swap would show."""
    settings = {"name": "random", "dtype": "float32", "lora": Lora(rank=4, alpha=8), "init": {"b_noise_std": 0.02}}
    return Model.model_validate(settings | fields)


def train_config(**fields: Any) -> Train:
    settings = {"warmup": 0.0, "tokens_per_pass": 80, "max_completion_tokens": 24, "learning_rate": 1e-3}
    return Train.model_validate(settings | fields)


def drawn_group(*names: object, size: int = 4) -> list[Tokens]:
    """One problem's completions: one prompt, completions of different lengths."""
    rng = random.Random("/".join(map(str, names)))
    prompt = random_tokens(rng, VOCABULARY, rng.randrange(3, 9), 0).prompt_ids
    lengths = [rng.randrange(2, 24) for _ in range(size)]
    return [Tokens(prompt, random_tokens(rng, VOCABULARY, 0, length).completion_ids) for length in lengths]


def reward(completion: Sequence[int]) -> float:
    """A toy reward with the game's ladder: 2 for an even sum of ids, 0.5 for an even first id."""
    return 2.0 * (sum(completion) % 2 == 0) + 0.5 * (completion[0] % 2 == 0)


def live_group(*names: object, size: int = 4) -> list[Tokens]:
    """The first drawn group whose rewards differ."""
    for attempt in range(1000):
        group = drawn_group(*names, attempt, size=size)
        if advantages([reward(row.completion_ids) for row in group])[0] is not None:
            return group
    raise RuntimeError("no live group in 1000 draws")
