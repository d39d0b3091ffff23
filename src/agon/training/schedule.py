"""What a run does when, and what its checkpoints must remember beside the learner's own state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agon.config import Config
from agon.types import Policy


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


@dataclass(slots=True)
class State:
    """What a checkpoint must remember beside the learner's own state."""

    versions: dict[Policy, str] = field(default_factory=dict)
    first: dict[Policy, str] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        names = {"versions": self.versions, "first": self.first}
        plain = {key: {policy.value: name for policy, name in value.items()} for key, value in names.items()}
        return {"run": {**plain, "points": self.points, "best": self.best}}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> State:
        names = [{Policy(policy): name for policy, name in raw[key].items()} for key in ("versions", "first")]
        return cls(names[0], names[1], list(raw["points"]), raw["best"])
