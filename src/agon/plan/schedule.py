"""How many steps a run has, when it evaluates and saves, and whether a step has work for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agon.config import Config
from agon.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many steps there are, and when to evaluate and save. A step number counts the steps done."""

    steps_per_epoch: int
    total: int
    points: frozenset[int]
    every: int
    against_first: Literal["end", "always", "never"] = "end"

    @classmethod
    def of(cls, config: Config, problems: int) -> Schedule:
        train = config.train
        per_epoch = problems // train.problems_per_step
        total = min(per_epoch * train.epochs, train.max_steps or per_epoch * train.epochs)
        points = {0, *(round(total * k / config.eval.points) for k in range(1, config.eval.points + 1))}
        chosen = frozenset(points if config.eval.points else ())
        return cls(per_epoch, total, chosen, config.save.every, config.eval.against_first)

    def meets_first(self, done: int) -> bool:
        """Whether an evaluation point also measures cascades from first versions, once the run has moved on."""
        return done > 0 and (self.against_first == "always" or (self.against_first == "end" and done == self.total))

    def saves(self, done: int) -> bool:
        return done % self.every == 0 or done == self.total or done in self.points


def check_step(config: Config, problems: int) -> None:
    """Refuse a run without a single step."""
    size = config.train.problems_per_step
    if problems < size:
        raise ConfigError(
            f"train.problems_per_step is {size}, but there are only {problems} training problems",
            fix="lower train.problems_per_step, or take more training problems",
        )


def idle_engines(problems: int, engines: int) -> str | None:
    """A warning where a step plays fewer problems than there are engines; None where there are enough.

    Every engine then draws a few bouts only, and a step takes as long as its longest one.
    """
    if problems >= engines:
        return None
    return (
        f"{engines} engines share {problems} problems per step and wait for its longest bout; "
        f"raise train.problems_per_step to {engines} in a new run, or use fewer GPUs"
    )
