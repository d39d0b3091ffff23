"""How rewards change over the steps of a log: the mean of every term, and the share of dead groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from agon_lens.groups import Group, GroupLog, totals, varies

MANY_STEPS = 6
"""Steps from which on a log has a beginning and an end."""


@dataclass(frozen=True, slots=True)
class StepTrend:
    """The groups of one step."""

    step: float
    groups: int
    dead: float
    """Share of its groups without two different totals."""
    means: tuple[float, ...]
    """The mean of every term, in the order of the log."""


def over_steps(log: GroupLog) -> tuple[StepTrend, ...]:
    """One entry per step, in order; none where the log has no steps, or only one."""
    by_step = defaultdict[float, list[Group]](list)
    for step, group in zip(log.steps, log.groups, strict=False):
        if step is not None:
            by_step[step].append(group)
    if len(by_step) < 2:
        return ()
    return tuple(_trend(step, by_step[step], log) for step in sorted(by_step))


def _trend(step: float, groups: Sequence[Group], log: GroupLog) -> StepTrend:
    rows = [row for group in groups for row in group if row.total is not None]
    means = tuple(fmean(row.terms[k] for row in rows) if rows else 0.0 for k in range(len(log.terms)))
    graded = [tuple(row for row in group if row.total is not None) for group in groups]
    dead = fmean(not varies(totals(group), log.resolution) for group in graded)
    return StepTrend(step, len(groups), dead, means)


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The mean over the first and over the last third of the steps."""
    size = max(1, len(values) // 3)
    return fmean(values[:size]), fmean(values[-size:])
