"""The diagnosis of one log: its terms, its dead groups, and whether the logged advantages are the ones we compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from agon_lens.agon_bouts import bites
from agon_lens.dead import Cause, causes
from agon_lens.groups import Group, GroupLog, Reading, Scale, column, normalise, totals, varies
from agon_lens.terms import Term, terms
from agon_lens.trends import StepTrend, over_steps

AGREES = 0.01
"""Logged advantages this close to ours agree: trainers add an epsilon and log in float32."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log shows about its rewards. `dead` counts groups by cause; shares are of groups with two graded rows."""

    name: str
    groups: int
    rows: int
    ungraded_rows: int
    group_sizes: tuple[int, int]
    scale: Scale
    advantages_agree: bool | None
    unexplained_groups: float
    dead: Mapping[Cause, int]
    terms: tuple[Term, ...]
    bonus_bites: float | None = None
    """Of a log of Agon's challenges that pays a bonus: the share of groups whose advantages it changes."""
    reading: Reading | None = None
    """Of a log of Agon's challenges: what they made of the drafts."""
    trend: tuple[StepTrend, ...] = ()
    """Step by step; empty where the log has no steps."""
    notes: tuple[str, ...] = ()
    """How the log was read: columns that were guessed, lines that were skipped."""

    @property
    def dead_groups(self) -> int:
        return sum(self.dead.values())

    def json(self) -> dict[str, object]:
        """Every field, as plain values."""
        terms = [asdict(term) | {"inert": term.inert} for term in self.terms]
        dead = {cause.value: count for cause, count in self.dead.items()}
        return asdict(self) | {"dead_groups": self.dead_groups, "dead": dead, "terms": terms}


def diagnose(log: GroupLog, scale: Scale | None = None) -> Diagnosis:
    """Diagnose a log; without a scale, take the one that explains the logged advantages, else the group's."""
    chosen = scale or ("none" if _agree(log, "none") and not _agree(log, "group") else "group")
    sizes = [len(group) for group in log.groups]
    return Diagnosis(
        name=log.name,
        groups=len(log.groups),
        rows=sum(sizes),
        ungraded_rows=sum(row.total is None for row in log.rows()),
        group_sizes=(min(sizes, default=0), max(sizes, default=0)),
        scale=chosen,
        advantages_agree=_agree(log, chosen),
        unexplained_groups=_unexplained(log),
        dead=dict(causes(log).most_common()),
        terms=terms(log, chosen),
        bonus_bites=_bonus_bites(log),
        reading=log.reading,
        trend=over_steps(log),
        notes=log.notes,
    )


def _bonus_bites(log: GroupLog) -> float | None:
    """As the game counts it; None where the log does not say which term is correctness and which are the bonus."""
    if not log.bonus:
        return None
    correct = log.terms.index(log.correctness)
    bonus = [log.terms.index(name) for name in log.bonus]
    biting = [
        bites(column(group, correct), [sum(row.terms[k] for k in bonus) for row in group]) for group in log.graded
    ]
    return sum(biting) / len(log.groups) if log.groups else None


def _agree(log: GroupLog, scale: Scale) -> bool | None:
    """Whether the logged advantages are the totals normalised this way; None if the log has none."""
    pairs = [pair for group in log.graded for pair in _logged(group, scale, log.resolution)]
    return all(abs(ours - theirs) <= AGREES * max(1.0, abs(ours)) for ours, theirs in pairs) if pairs else None


def _logged(group: Group, scale: Scale, resolution: float) -> list[tuple[float, float]]:
    ours = normalise(totals(group), scale, resolution)
    return [(a, row.advantage) for a, row in zip(ours, group, strict=True) if row.advantage is not None]


def _unexplained(log: GroupLog) -> float:
    """The share of groups in which the total varies by something that is not among the terms."""
    graded = log.graded
    remainders = ([total - sum(row.terms) for total, row in zip(totals(group), group, strict=True)] for group in graded)
    return sum(varies(values, 10 * log.resolution) for values in remainders) / len(graded) if graded else 0.0
