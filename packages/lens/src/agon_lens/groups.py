"""Logged groups as values: weighted reward terms by row, and the two ways of normalising a group."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Literal

Scale = Literal["group", "none"]
"""TRL's scale_rewards: divide by the group's standard deviation, or only subtract its mean."""

RESOLUTION = 1e-6
"""Rewards closer than this, relative to the largest of a usual group, are one reward: logs are often in float32."""
SMALLEST = 1e-150
"""Rewards closer than this are one reward too: the square of a smaller difference is 0."""


@dataclass(frozen=True, slots=True)
class RewardRow:
    """The rewards of one completion. `total` is None when it was not graded; what the log does not hold is None."""

    terms: tuple[float, ...]
    total: float | None
    correct: bool | None = None
    truncated: bool | None = None
    opponent: Hashable = None
    advantage: float | None = None
    text: int | None = None
    """A fingerprint of the completion: equal for equal texts."""


Group = tuple[RewardRow, ...]


@dataclass(frozen=True)
class GroupLog:
    """Groups of rows that were normalised together, and the names of their terms."""

    name: str
    terms: tuple[str, ...]
    groups: tuple[Group, ...]
    steps: tuple[float | None, ...] = ()
    """The step of every group, where the log has steps."""
    stepless: int = 0
    """Rows without a step in a log whose groups are within steps."""
    numbers: tuple[Sequence[int], ...] = ()
    """The number of every row's line in the log, by which its texts are found again."""
    characters: tuple[int, ...] = ()
    """About how much text each group holds."""
    notes: tuple[str, ...] = ()
    """How the log was read, where that is not certain: columns that were guessed, lines that were skipped."""

    @cached_property
    def resolution(self) -> float:
        """The smallest difference between two rewards that counts; one huge reward does not make all others equal."""
        sizes = [
            max((abs(value) for row in group for value in (*row.terms, row.total or 0.0)), default=0.0)
            for group in self.groups
        ]
        return max(RESOLUTION * median([size for size in sizes if size] or [0.0]), SMALLEST)

    def rows(self) -> Iterator[RewardRow]:
        for group in self.groups:
            yield from group

    @cached_property
    def graded(self) -> list[Group]:
        """Every group without its ungraded rows; groups with fewer than two graded rows are left out."""
        groups = (tuple(row for row in group if row.total is not None) for group in self.groups)
        return [group for group in groups if len(group) > 1]

    @cached_property
    def graded_numbers(self) -> list[int]:
        """The places of the graded groups in the log."""
        return [k for k, group in enumerate(self.groups) if sum(row.total is not None for row in group) > 1]


def snap(values: Sequence[float], resolution: float) -> list[float]:
    """The values, with those within the resolution of each other made equal."""
    snapped = dict[float, float]()
    anchor = None
    for value in sorted(set(values)):
        if anchor is None or value - anchor > resolution:
            anchor = value
        snapped[value] = anchor
    return [snapped[value] for value in values]


def varies(values: Sequence[float], resolution: float) -> bool:
    """Whether the values of a group differ."""
    return bool(values) and max(values) - min(values) > resolution


def normalise(values: Sequence[float], scale: Scale, resolution: float) -> list[float]:
    """Advantages of one group: (value - mean) / std, the sample one (n - 1), as in TRL but with epsilon 0, so that "no
    change" is exact. With scale "none" the mean alone is subtracted. A dead group gets zeros."""
    known = snap(values, resolution)
    if len(known) < 2 or min(known) == max(known):
        return [0.0] * len(known)
    mean = fmean(known)
    centred = [value - mean for value in known]
    if scale == "none":
        return centred
    std = (sum(value**2 for value in centred) / (len(known) - 1)) ** 0.5
    return [value / std for value in centred]


def totals(group: Group) -> list[float]:
    """The totals of a graded group."""
    return [row.total for row in group if row.total is not None]


def column(group: Group, term: int) -> list[float]:
    """One term of every row of a group."""
    return [row.terms[term] for row in group]
