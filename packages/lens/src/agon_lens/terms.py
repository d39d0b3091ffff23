"""What each reward term does to the normalised advantages: its kind, the first of these that fits.

    group-constant       never varies within a group: subtracted with the mean
    action-independent   fixed by the opponent's outcome: no expected gradient, only noise
    rescaling            varies, yet no advantage changes without it: divided out with the standard deviation
    echo                 a multiple of an earlier term, up to what the opponent decides: a weight, not a direction
    signal               none of these: it changes advantages in a direction of its own

The kind is what the log shows: a policy that always copies its opponent's outcome makes its own correctness look
action-independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal

from agon_lens.groups import Group, GroupLog, RewardRow, Scale, column, normalise, totals, varies

Kind = Literal["group-constant", "action-independent", "rescaling", "echo", "signal"]

UNCHANGED = 1e-4
"""Advantages closer than this are the same: TRL's epsilon alone moves them by as much."""

SMALL = 0.1
"""Totals of a group are close together when they differ by less than this share of the log's whole range."""

FAR = 1000
"""A value that is this many times the usual one is an outlier."""

MIN_REPEATS = 8
"""How often an outcome must repeat under the same opponent before its constancy counts as evidence."""


@dataclass(frozen=True, slots=True)
class Term:
    """One reward term: its kind, and how much of the learning signal it carries."""

    name: str
    kind: Kind
    varying_groups: float
    saturated: float
    floored: float
    variance_share: float
    advantage_change: float
    sign_flips: float
    changed_groups: float
    sole_signal: int
    range: tuple[float, float]
    """Its least and greatest value in the log."""
    mean: float
    amplified: int
    """Groups that it alone keeps alive by a difference that is small for the log: dividing by the standard deviation
    makes it as large as any."""
    sole_groups: tuple[int, ...] = ()
    """The groups that it alone keeps alive, by their number in the log."""
    shown_in: tuple[int, ...] = ()
    """Groups that show its kind: those in which it varies, or all where it never does."""
    changed_in: tuple[int, ...] = ()
    """Groups in which it changes an advantage."""
    outliers: tuple[int, ...] = ()
    """Groups with a value that is far beyond all usual ones."""
    usual: float = 0.0
    """The median size of its values that are not 0."""
    saturated_in: tuple[int, ...] = ()
    floored_in: tuple[int, ...] = ()
    echo_of: str | None = None
    slope: float | None = None

    @property
    def inert(self) -> bool:
        """No expected gradient of its own in these groups."""
        return self.kind in {"group-constant", "action-independent", "rescaling"}


def terms(log: GroupLog, scale: Scale) -> tuple[Term, ...]:
    """Every term of a log, in the order of its columns."""
    found = [_term(log, scale, index) for index in range(len(log.terms))]
    inert = list[int]()
    for index in reversed(range(len(found))):  # of terms that repeat each other, the first is the one that is learnt
        if found[index].kind == "rescaling":
            if _change_together(log, [*inert, index], scale):
                found[index] = replace(found[index], kind="signal")
            else:
                inert.append(index)
    return tuple(found)


def _change_together(log: GroupLog, indices: Sequence[int], scale: Scale) -> bool:
    """Whether an advantage changes when these terms are dropped."""
    return any(_change(group, indices, scale, log.resolution).changed for group in log.graded)


def _term(log: GroupLog, scale: Scale, index: int) -> Term:
    groups, resolution, numbers = log.graded, log.resolution, log.graded_numbers
    changes = [_change(group, [index], scale, resolution) for group in groups]
    varying = [varies(column(group, index), resolution) for group in groups]
    saturated, floored = (_constant_at(end, log, index) for end in (max, min))
    usual = median([abs(row.terms[index]) for group in groups for row in group if row.terms[index]] or [0.0])
    sole = [number for number, change in zip(numbers, changes, strict=True) if change.sole]
    live = [change for change in changes if change.live or change.live_without]
    pairs = [pair for change in live for pair in change.pairs]
    echo = _echo(log, index)
    kind = _kind(log, index, changes, echo)
    return Term(
        name=log.terms[index],
        kind=kind,
        varying_groups=_share(varying),
        saturated=len(saturated) / (len(groups) or 1),
        floored=len(floored) / (len(groups) or 1),
        variance_share=_variance_share(groups, index),
        advantage_change=fmean([abs(with_ - without) for with_, without in pairs]) if pairs else 0.0,
        sign_flips=_share(with_ * without < -(UNCHANGED**2) for with_, without in pairs),
        changed_groups=_share(change.changed for change in live),
        sole_signal=len(sole),
        sole_groups=tuple(sole),
        shown_in=tuple(number for number, here in zip(numbers, varying, strict=True) if here or not any(varying)),
        changed_in=tuple(number for number, change in zip(numbers, changes, strict=True) if change.changed),
        outliers=tuple(
            number for number, group in zip(numbers, groups, strict=True) if _is_outlier(group, index, usual)
        ),
        usual=usual,
        saturated_in=saturated,
        floored_in=floored,
        range=_range(groups, index),
        mean=fmean([row.terms[index] for group in groups for row in group] or [0.0]),
        amplified=_amplified(groups, changes) if scale == "group" else 0,
        echo_of=log.terms[echo[0]] if echo and kind == "echo" else None,
        slope=echo[1] if echo and kind == "echo" else None,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """The advantages of one group with and without some of its terms."""

    live: bool
    live_without: bool
    sole: bool
    """Whether these terms keep the group alive, and no other varies in it."""
    pairs: tuple[tuple[float, float], ...]

    @property
    def changed(self) -> bool:
        return any(abs(with_ - without) > UNCHANGED for with_, without in self.pairs)


def _change(group: Group, indices: Sequence[int], scale: Scale, resolution: float) -> _Change:
    paid = totals(group)
    rest = [total - sum(row.terms[k] for k in indices) for total, row in zip(paid, group, strict=True)]
    pairs = zip(normalise(paid, scale, resolution), normalise(rest, scale, resolution), strict=True)
    live, without = varies(paid, resolution), varies(rest, resolution)
    others = any(varies(column(group, k), resolution) for k in range(len(group[0].terms)) if k not in indices)
    return _Change(live, without, live and not without and not others, tuple(pairs))


def _kind(log: GroupLog, index: int, changes: list[_Change], echo: tuple[int, float] | None) -> Kind:
    groups = log.graded
    if not any(varies(column(group, index), log.resolution) for group in groups):
        return "group-constant"
    if _only_opponent(groups, index, log.resolution):
        return "action-independent"
    if not any(change.changed for change in changes):
        return "rescaling"
    return "echo" if echo else "signal"


def _only_opponent(groups: list[Group], index: int, resolution: float) -> bool:
    """Whether the opponent's outcome fixes the term in every group, with enough repeats as evidence."""
    repeats = 0
    for group in groups:
        if not varies(column(group, index), resolution):
            continue
        for rows in _by_opponent(group):
            if None in {row.opponent for row in rows} or varies(column(rows, index), resolution):
                return False
            repeats += len(rows) - 1
    return repeats >= MIN_REPEATS


def _by_opponent(group: Group) -> Iterator[Group]:
    """The rows of a group by the opponent's outcome (all of them together, if the log has none)."""
    outcomes = defaultdict[Hashable, list[RewardRow]](list)
    for row in group:
        outcomes[row.opponent].append(row)
    yield from map(tuple, outcomes.values())


def _echo(log: GroupLog, index: int) -> tuple[int, float] | None:
    """The earlier term that this one is a multiple of once the opponent's outcome is fixed, with the factor."""
    for other in range(index):
        slope = _slope(log.graded, index, other, log.resolution)
        if slope is not None:
            return other, slope
    return None


def _slope(groups: list[Group], index: int, other: int, resolution: float) -> float | None:
    """The factor that turns term `other` into term `index` under every outcome; None if there is none."""
    pairs = [pair for group in groups for rows in _by_opponent(group) for pair in _centred(rows, index, other)]
    square = sum(theirs * theirs for _, theirs in pairs)
    if square <= resolution**2:
        return None
    slope = sum(mine * theirs for mine, theirs in pairs) / square
    off = max(abs(mine - slope * theirs) for mine, theirs in pairs)
    informative = sum(abs(theirs) > resolution for _, theirs in pairs)
    return slope if abs(slope) > resolution and off <= 10 * resolution and informative >= MIN_REPEATS else None


def _centred(rows: Group, index: int, other: int) -> list[tuple[float, float]]:
    mine, theirs = column(rows, index), column(rows, other)
    mean_mine, mean_theirs = fmean(mine), fmean(theirs)
    return [(a - mean_mine, b - mean_theirs) for a, b in zip(mine, theirs, strict=True)]


def _variance_share(groups: list[Group], index: int) -> float:
    """cov(term, total) / var(total) within groups: the shares of all terms add up to 1."""
    covariance = variance = 0.0
    for group in groups:
        paid, mine = totals(group), column(group, index)
        mean_paid, mean_mine = fmean(paid), fmean(mine)
        covariance += sum((p - mean_paid) * (m - mean_mine) for p, m in zip(paid, mine, strict=True))
        variance += sum((p - mean_paid) ** 2 for p in paid)
    return covariance / variance if variance else 0.0


def _is_outlier(group: Group, index: int, usual: float) -> bool:
    return bool(usual) and max(map(abs, column(group, index))) > FAR * usual


def _constant_at(extreme: Callable[[Iterable[float]], float], log: GroupLog, index: int) -> tuple[int, ...]:
    """The groups in which every row has the log's largest (or smallest) value of a term."""
    values = [row.terms[index] for group in log.graded for row in group]
    if not values or not varies(values, log.resolution):
        return ()
    end = extreme(values)
    return tuple(
        number
        for number, group in zip(log.graded_numbers, log.graded, strict=True)
        if all(abs(value - end) <= log.resolution for value in column(group, index))
    )


def _amplified(groups: list[Group], changes: list[_Change]) -> int:
    """Groups that live by this term alone, though their totals are close together."""
    everything = [total for group in groups for total in totals(group)]
    small = SMALL * (max(everything, default=0.0) - min(everything, default=0.0))
    alone = [group for group, change in zip(groups, changes, strict=True) if change.sole]
    return sum(max(totals(group)) - min(totals(group)) < small for group in alone)


def _range(groups: list[Group], index: int) -> tuple[float, float]:
    values = [row.terms[index] for group in groups for row in group]
    return min(values, default=0.0), max(values, default=0.0)


def _share(flags: Iterable[bool]) -> float:
    """The share of True."""
    known = list(flags)
    return sum(known) / len(known) if known else 0.0
