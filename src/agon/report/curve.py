"""Evaluation points along a run, from `points.json`: the curve of the paper's figure 2b, with counts.

The paper's curve is one sampled evaluation of one direction at each point; here a point of a pair is the mean of both
directions, so that no choice hides in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.rundir import RunDir

CORRECT = 2.0
"""What a right answer is worth in the reward (equation 2)."""


@dataclass(frozen=True, slots=True)
class Point:
    """What dev said after some steps, over all systems that an arm deploys."""

    step: int
    n: int
    correct: int
    well_formed: int
    tokens: float
    reward: float

    @property
    def rate(self) -> float:
        return self.correct / self.n if self.n else 0.0


def curve(path: Path) -> list[Point]:
    """The points of a run, in order; a run without any has no curve."""
    run = RunDir.open(path)
    file = path / "points.json"
    if not file.is_file():
        raise RunDirError(f"{path} has no evaluation points", fix="train it with eval.points=6")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        weight = float(run.config["game"]["format_weight"])
        return [_point(point, weight) for point in raw]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirError(f"{file} cannot be read: {error}", fix="restore it from a copy of the run") from error


def _point(raw: Mapping[str, Any], format_weight: float) -> Point:
    systems = [raw["systems"][name] for name in deployed(raw["systems"])]
    n = sum(system["n"] for system in systems)
    correct = sum(system["correct"] for system in systems)
    formed = sum(system["well_formed"] for system in systems)
    tokens = sum(system["tokens_final"] for system in systems)
    held = sum(system["n"] + system["ungraded"] for system in systems) or 1
    reward = (CORRECT * correct / n if n else 0.0) + format_weight * formed / held
    return Point(int(raw["step"]), n, correct, formed, tokens / held, reward)


def deployed(systems: Mapping[str, Any]) -> list[str]:
    """What an arm deploys: both cascades, its own cascade, or what stands alone."""
    for names in (("ab", "ba"), ("aa",), ("a", "b")):
        if found := [name for name in names if name in systems]:
            return found
    raise KeyError("no system was measured")
