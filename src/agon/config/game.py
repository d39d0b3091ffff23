"""From a config to the rules of its arm."""

from __future__ import annotations

from agon.config import Config
from agon.game.rules import Game
from agon.types import Sampling


def game_of(config: Config) -> Game:
    """The rules of a config's arm."""
    fields = config.game.model_dump(exclude={"roles"})
    train = config.train
    return Game(
        **fields,
        role_assignment=config.game.roles,
        max_peek_tokens=train.max_peek_tokens,
        sampling=Sampling(train.temperature, 1.0, train.max_completion_tokens),
        seed=train.seed,
    )
