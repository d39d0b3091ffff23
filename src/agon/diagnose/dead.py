"""Why a group carries no signal: one reason for each dead group, the most telling one first."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from agon.diagnose.groups import Group, Log, column, varies


class Cause(StrEnum):
    """Why the totals of a group are all alike."""

    UNGRADED = "ungraded"
    CANCELLING = "cancelling"
    UNPAID = "unpaid"
    TRUNCATED = "truncated"
    ALL_RIGHT = "all right"
    ALL_WRONG = "all wrong"
    SATURATED = "saturated"
    FLOORED = "floored"
    CONSTANT = "constant"


def causes(log: Log) -> Counter[Cause]:
    """How many groups are dead, by cause."""
    extremes = [_extremes(log, place) for place in range(len(log.terms))]
    found = (cause(group, extremes, log.resolution) for group in log.groups)
    return Counter(reason for reason in found if reason is not None)


def cause(group: Group, extremes: list[tuple[float, float]], resolution: float) -> Cause | None:
    """Why this group is dead; None if it lives."""
    graded = tuple(row for row in group if row.total is not None)
    if len(graded) < 2:
        return Cause.UNGRADED
    if varies([row.total for row in graded if row.total is not None], resolution):
        return None
    if any(varies(column(graded, place), resolution) for place in range(len(extremes))):
        return Cause.CANCELLING
    if len({row.correct for row in graded}) > 1:
        return Cause.UNPAID
    if all(row.truncated for row in graded):
        return Cause.TRUNCATED
    if graded[0].correct is not None:
        return Cause.ALL_RIGHT if graded[0].correct else Cause.ALL_WRONG
    return _by_terms(graded, extremes, resolution)


def _by_terms(graded: Group, extremes: list[tuple[float, float]], resolution: float) -> Cause:
    """Without a column that says what is right: at the top of what the log pays, at its bottom, or in between."""
    moving = [(value, low, high) for value, (low, high) in zip(graded[0].terms, extremes, strict=True) if high > low]
    if moving and all(high - value <= resolution for value, _, high in moving):
        return Cause.SATURATED
    if moving and all(value - low <= resolution for value, low, _ in moving):
        return Cause.FLOORED
    return Cause.CONSTANT


def _extremes(log: Log, place: int) -> tuple[float, float]:
    values = [row.terms[place] for row in log.rows() if row.total is not None]
    return min(values, default=0.0), max(values, default=0.0)
