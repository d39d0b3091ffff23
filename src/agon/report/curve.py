"""The curve of a run over training, from its evaluation points: the paper's figure 7b, with counts.

It is on dev, or on held-out problems, as in the paper, where the run measured them (`eval.curve: held_out`).
The paper's curve is one sampled evaluation of one direction at each point; here a point of a pair is the mean of both
directions, so that no choice hides in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agon.eval.systems import deployed_parts
from agon.report.collect import MeasuredRun
from agon.rundir.records import SystemCounts

Split = Literal["dev", "held_out"]
CORRECT = 2.0
"""What a right answer is worth in the reward (equation 2)."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What was measured after some steps, over all systems that the arm deploys."""

    step: int
    n: int
    correct: int
    reward: float

    @property
    def rate(self) -> float:
        return self.correct / self.n if self.n else 0.0


def split_of(runs: Sequence[MeasuredRun]) -> Split:
    """What the curves of these runs can be compared on: held-out if all measured it at every point."""
    return "held_out" if all(point.held_out for run in runs for point in run.points) else "dev"


def curve(run: MeasuredRun, split: Split = "dev") -> list[CurvePoint]:
    """The points of a run, in order; a run without any has no curve."""
    counted = [(point.step, point.systems if split == "dev" else point.held_out) for point in run.points]
    return [_curve_point(step, systems, run.format_weight) for step, systems in counted if systems]


def _curve_point(step: int, measured: Mapping[str, SystemCounts], format_weight: float) -> CurvePoint:
    systems = [measured[name] for name in deployed_parts(measured)]
    n, correct = sum(system.n for system in systems), sum(system.correct for system in systems)
    trials = sum(system.n + system.ungraded for system in systems)
    well_formed = sum(system.well_formed for system in systems)
    reward = (CORRECT * correct / n if n else 0.0) + (format_weight * well_formed / trials if trials else 0.0)
    return CurvePoint(step, n, correct, reward)
