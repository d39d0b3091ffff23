"""How many steps a run has, and when it evaluates and saves."""

from __future__ import annotations

from dataclasses import dataclass

from agon.config import Config


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many steps there are, and when to evaluate and save. A step number counts the steps done."""

    steps_per_epoch: int
    total: int
    points: frozenset[int]
    every: int

    @classmethod
    def of(cls, config: Config, problems: int) -> Schedule:
        train = config.train
        per_epoch = problems // train.problems_per_step
        total = min(per_epoch * train.epochs, train.max_steps or per_epoch * train.epochs)
        points = {0, *(round(total * k / config.eval.points) for k in range(1, config.eval.points + 1))}
        return cls(per_epoch, total, frozenset(points if config.eval.points else ()), config.save.every)

    def saves(self, done: int) -> bool:
        return done % self.every == 0 or done == self.total or done in self.points
