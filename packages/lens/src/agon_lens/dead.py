"""Why a group carries no signal: one cause per dead group, the most specific first."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from agon_lens.groups import Group, GroupLog, column, varies


class Cause(StrEnum):
    """Why all totals of a group are equal."""

    UNGRADED = "ungraded"
    CANCELLING = "cancelling"
    UNPAID = "unpaid"
    TRUNCATED = "truncated"
    ALL_RIGHT = "all right"
    ALL_WRONG = "all wrong"
    SATURATED = "saturated"
    FLOORED = "floored"
    CONSTANT = "constant"


class Uniformity(StrEnum):
    """What the texts of a dead group look like: the two call for opposite remedies."""

    CLIFF = "cliff"
    """Different texts earn the same reward: the reward does not tell them apart."""
    COLLAPSE = "collapse"
    """More than half of the texts are one and the same: the policy does not vary."""


def uniformity(group: Group) -> Uniformity | None:
    """Cliff or collapse, of a dead group; None where the log has no texts."""
    texts = [row.text for row in group if row.total is not None and row.text is not None]
    if len(texts) < 2:
        return None
    most = max(Counter(texts).values())
    return Uniformity.COLLAPSE if 2 * most > len(texts) else Uniformity.CLIFF


def causes(log: GroupLog) -> Counter[Cause]:
    """How many groups are dead, by cause."""
    return Counter(reason for reason in group_causes(log) if reason is not None)


def group_causes(log: GroupLog) -> list[Cause | None]:
    """Why each group is dead, in order; None for a live one."""
    extremes = [_extremes(log, term) for term in range(len(log.terms))]
    return [cause(group, extremes, log.resolution) for group in log.groups]


def cause(group: Group, extremes: list[tuple[float, float]], resolution: float) -> Cause | None:
    """Why this group is dead; None if it is live."""
    graded = tuple(row for row in group if row.total is not None)
    if len(graded) < 2:
        return Cause.UNGRADED
    if varies([row.total for row in graded if row.total is not None], resolution):
        return None
    if any(varies(column(graded, term), resolution) for term in range(len(extremes))):
        return Cause.CANCELLING
    outcomes = {row.correct for row in graded} - {None}  # of a row that was not verified nothing is known
    if len(outcomes) > 1:
        return Cause.UNPAID
    if all(row.truncated for row in graded):
        return Cause.TRUNCATED
    if outcomes:
        return Cause.ALL_RIGHT if True in outcomes else Cause.ALL_WRONG
    return _by_terms(graded, extremes, resolution)


def _by_terms(graded: Group, extremes: list[tuple[float, float]], resolution: float) -> Cause:
    """The cause where no column says what is right: the log's maximum, its minimum, or in between."""
    varying = [(value, low, high) for value, (low, high) in zip(graded[0].terms, extremes, strict=True) if high > low]
    if varying and all(high - value <= resolution for value, _, high in varying):
        return Cause.SATURATED
    if varying and all(value - low <= resolution for value, low, _ in varying):
        return Cause.FLOORED
    return Cause.CONSTANT


def _extremes(log: GroupLog, term: int) -> tuple[float, float]:
    values = [row.terms[term] for row in log.rows() if row.total is not None]
    return min(values, default=0.0), max(values, default=0.0)
