"""What each reward term does to the normalised advantages: its kind, the first of these that fits.

    group-constant       never varies within a group: subtracted with the mean
    action-independent   fixed by the opponent's outcome: no expected gradient, only noise
    rescaling            varies, yet no advantage changes without it: divided out with the standard deviation
    echo                 a multiple of an earlier term, up to what the opponent decides: a weight, not a direction
    signal               none of these: it changes advantages in a direction of its own

The kind is what the log shows: if a policy always copies its opponent, its own correctness is misclassified as
action-independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
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

TELLING = 16
"""Groups that are looked at before a term is compared with another in the whole log."""


@dataclass(slots=True)
class Term:
    """One reward term. Up to `max` its fields are the columns of the printed table; groups are numbers of the log's."""

    name: str
    kind: Kind = "signal"
    varies: float = 0.0
    """Share of groups in which it takes more than one value."""
    share: float = 0.0
    """Share of the squared advantages; the shares of all terms add up to 1."""
    change: float = 0.0
    """Mean change of an advantage, in absolute value, when this term alone is dropped."""
    flips: float = 0.0
    """Share of advantages that change sign when it is dropped."""
    mean: float = 0.0
    min: float = 0.0
    max: float = 0.0
    usual: float = 0.0
    """The median size of its values that are not 0."""
    changed: float = 0.0
    """Share of live groups in which it changes an advantage."""
    amplified: int = 0
    """Groups that it alone keeps alive by a difference that is small for the log: dividing by the standard deviation
    makes it as large as any."""
    echo_of: str | None = None
    slope: float | None = None
    varies_in: list[int] = field(default_factory=list)
    changes_in: list[int] = field(default_factory=list)
    decides_in: list[int] = field(default_factory=list)
    """Groups that it alone keeps alive."""
    outliers_in: list[int] = field(default_factory=list)
    least_in: list[int] = field(default_factory=list)
    """Groups in which every row has the log's least value of it."""
    most_in: list[int] = field(default_factory=list)

    @property
    def inert(self) -> bool:
        """No expected gradient of its own in these groups."""
        return self.kind in {"group-constant", "action-independent", "rescaling"}


def terms(log: GroupLog, scale: Scale) -> tuple[Term, ...]:
    """Every term of a log, in the order of its columns."""
    found = [_levels(log, index) for index in range(len(log.terms))]
    _measure(log, scale, found)
    parts = [rows for group in log.graded for rows in _by_opponent(group)]
    telling = [rows for rows in parts if varies(totals(rows), log.resolution)][:TELLING]
    samples = [_centred(telling, index) for index in range(len(log.terms))]
    largest = [max(range(len(each)), key=lambda k: abs(each[k]), default=0) for each in samples]
    for index, term in enumerate(found):
        if not term.varies_in:
            term.kind = "group-constant"
        elif _only_opponent(log, index):
            term.kind = "action-independent"
        elif not term.changes_in:
            term.kind = "rescaling"
        for other in range(index if term.kind == "signal" else 0):
            if _parallel(samples[index], samples[other], largest[other], log.resolution):
                term.slope = _slope(_centred(parts, index), _centred(parts, other), log.resolution)
                if term.slope is not None:
                    term.kind, term.echo_of = "echo", log.terms[other]
                    break
    _keep_one_of_equals(log, scale, found)
    return tuple(found)


def _levels(log: GroupLog, index: int) -> Term:
    """A term with what its values are, apart from what they do."""
    values = [row.terms[index] for group in log.graded for row in group]
    term = Term(
        log.terms[index], mean=fmean(values or [0.0]), min=min(values, default=0.0), max=max(values, default=0.0)
    )
    term.usual = median([abs(value) for value in values if value] or [0.0])
    return term


def _measure(log: GroupLog, scale: Scale, found: Sequence[Term]) -> None:
    """Drop each term from each group in turn, and see what becomes of the advantages."""
    resolution, every = log.resolution, [total for group in log.graded for total in totals(group)]
    small = SMALL * (max(every, default=0.0) - min(every, default=0.0)) if scale == "group" else 0.0
    live_rows = live_groups = squares = 0.0
    added = [[0.0, 0.0] for _ in found]  # rows and groups that live without the term only
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        paid, columns = totals(group), list(zip(*(row.terms for row in group), strict=True))
        live, advantages, mean = varies(paid, resolution), normalise(paid, scale, resolution), fmean(paid)
        centred = [value - mean for value in paid]
        square = sum(value * value for value in centred)
        weight = (len(group) - 1) / square if live and scale == "group" else float(live)
        live_rows, live_groups, squares = live_rows + live * len(group), live_groups + live, squares + weight * square
        varying = [k for k, values in enumerate(columns) if varies(values, resolution)]
        for k, values in enumerate(columns):
            term = found[k]
            if term.usual and max(map(abs, values)) > FAR * term.usual:
                term.outliers_in.append(number)
            if term.max - term.min > resolution:
                if min(values) >= term.max - resolution:
                    term.most_in.append(number)
                if max(values) <= term.min + resolution:
                    term.least_in.append(number)
        for k in varying:
            term, values = found[k], columns[k]
            term.varies_in.append(number)
            term.share += weight * sum(a * b for a, b in zip(values, centred, strict=True))
            rest = [total - value for total, value in zip(paid, values, strict=True)]
            pairs = list(zip(advantages, normalise(rest, scale, resolution), strict=True))
            live_without = varies(rest, resolution)
            if live_without and not live:
                added[k][0] += len(group)
                added[k][1] += 1
            if live or live_without:
                term.change += sum(abs(a - b) for a, b in pairs)
                term.flips += sum(a * b < -(UNCHANGED**2) for a, b in pairs)
            if any(abs(a - b) > UNCHANGED for a, b in pairs):
                term.changes_in.append(number)
            if live and not live_without and len(varying) == 1:
                term.decides_in.append(number)
                term.amplified += max(paid) - min(paid) < small
    for term, (rows, groups) in zip(found, added, strict=True):
        term.varies = len(term.varies_in) / (len(log.graded) or 1)
        term.share /= squares or 1.0
        term.change /= (live_rows + rows) or 1.0
        term.flips /= (live_rows + rows) or 1.0
        term.changed = len(term.changes_in) / ((live_groups + groups) or 1.0)


def _only_opponent(log: GroupLog, index: int) -> bool:
    """Whether the opponent's outcome fixes the term in every group, with enough repeats as evidence."""
    repeats = 0
    for group in log.graded:
        if not varies(column(group, index), log.resolution):
            continue
        for rows in _by_opponent(group):
            if rows[0].opponent is None or varies(column(rows, index), log.resolution):
                return False
            repeats += len(rows) - 1
    return repeats >= MIN_REPEATS


def _by_opponent(group: Group) -> list[Group]:
    """The rows of a group by the opponent's outcome (all of them together, if the log has none)."""
    outcomes = defaultdict[Hashable, list[RewardRow]](list)
    for row in group:
        outcomes[row.opponent].append(row)
    return [tuple(rows) for rows in outcomes.values()]


def _centred(parts: Sequence[Group], index: int) -> list[float]:
    """The values of a term in rows, less the mean of each part."""
    columns = (column(rows, index) for rows in parts)
    return [value - mean for values in columns for mean in [fmean(values)] for value in values]


def _parallel(mine: Sequence[float], theirs: Sequence[float], at: int, resolution: float) -> bool:
    """Whether the first rows allow one to be a multiple of the other: few pairs of many columns get any further."""
    slope = mine[at] / theirs[at] if theirs and theirs[at] else 0.0
    return all(abs(a - slope * b) <= 30 * resolution for a, b in zip(mine, theirs, strict=True))


def _slope(mine: Sequence[float], theirs: Sequence[float], resolution: float) -> float | None:
    """The factor that turns one into the other in every row; None if there is none, or too few rows show it."""
    square = sum(b * b for b in theirs)
    slope = sum(a * b for a, b in zip(mine, theirs, strict=True)) / square if square > resolution**2 else 0.0
    off = max((abs(a - slope * b) for a, b in zip(mine, theirs, strict=True)), default=0.0)
    known = sum(abs(b) > resolution for b in theirs) >= MIN_REPEATS
    return slope if known and abs(slope) > resolution and off <= 10 * resolution else None


def _keep_one_of_equals(log: GroupLog, scale: Scale, found: Sequence[Term]) -> None:
    """Of terms that repeat each other none changes anything alone; the first of them is the one that is learnt."""
    rest = [totals(group) for group in log.graded]
    for index in reversed(range(len(found))):
        if found[index].kind == "rescaling":
            left = [
                [value - row.terms[index] for value, row in zip(values, group, strict=True)]
                for values, group in zip(rest, log.graded, strict=True)
            ]
            if any(_differ(totals(group), values, scale, log) for group, values in zip(log.graded, left, strict=True)):
                found[index].kind = "signal"
            else:
                rest = left


def _differ(paid: Sequence[float], rest: Sequence[float], scale: Scale, log: GroupLog) -> bool:
    """Whether two rewards of a group give different advantages."""
    one, other = (normalise(values, scale, log.resolution) for values in (paid, rest))
    return any(abs(a - b) > UNCHANGED for a, b in zip(one, other, strict=True))
