"""The curve of a run over training, from its evaluation points on dev: the paper's figure 2b, with counts.

The paper's curve is one sampled evaluation of one direction at each point; here a point of a pair is the mean of both
directions, so that no choice hides in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from agon.eval.systems import deployed_parts
from agon.report.collect import MeasuredRun
from agon.rundir.records import Point

CORRECT = 2.0
"""What a right answer is worth in the reward (equation 2)."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What dev said after some steps, over all systems that the arm deploys."""

    step: int
    n: int
    correct: int
    reward: float

    @property
    def rate(self) -> float:
        return self.correct / self.n if self.n else 0.0


def curve(run: MeasuredRun) -> list[CurvePoint]:
    """The points of a run, in order; a run without any has no curve."""
    return [_curve_point(point, run.format_weight) for point in run.points if point.systems]


def _curve_point(point: Point, format_weight: float) -> CurvePoint:
    systems = [point.systems[name] for name in deployed_parts(point.systems)]
    n, correct = sum(system.n for system in systems), sum(system.correct for system in systems)
    trials = sum(system.n + system.ungraded for system in systems)
    well_formed = sum(system.well_formed for system in systems)
    reward = (CORRECT * correct / n if n else 0.0) + (format_weight * well_formed / trials if trials else 0.0)
    return CurvePoint(point.step, n, correct, reward)
