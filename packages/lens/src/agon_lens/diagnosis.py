"""The diagnosis of one log: its terms, its dead groups, and whether the logged advantages are the ones we compute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import stdev

from agon_lens.agon_bouts import bites
from agon_lens.dead import Cause, Uniformity, group_causes, uniformity
from agon_lens.groups import Group, GroupLog, Reading, Scale, column, normalise, totals, varies
from agon_lens.terms import Term, terms
from agon_lens.trends import StepTrend, over_steps

AGREES = 0.01
"""Logged advantages this close to ours agree: trainers log in float32."""
EPSILON = 1e-4
"""What trainers add at most to the standard deviation: much, in a group that a small term decides."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Rows that were cut off, and how many of these and of the others earned the least reward of their group."""

    rows: int
    at_least: int
    others: int
    others_at_least: int
    groups: tuple[int, ...]
    """Groups with a truncated row at their least reward."""


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
    dead_by_cause: Mapping[Cause, tuple[int, ...]] = field(default_factory=dict)
    """The numbers of dead groups, by cause."""
    cliffs: tuple[int, ...] = ()
    """Dead groups of different texts, apart from those that were truncated throughout."""
    collapsed: tuple[int, ...] = ()
    """Dead groups in which more than half of the texts are equal."""
    truncation: Truncation | None = None
    disagreeing: tuple[int, ...] = ()
    """Groups whose logged advantages are not the ones that the totals give."""
    unexplained: tuple[int, ...] = ()
    """Groups in which the total varies by something that is not among the terms."""
    bonus_inert: tuple[int, ...] = ()
    """Groups whose advantages the bonus does not change."""
    ungraded: tuple[int, ...] = ()
    """Groups with a row that has no reward."""
    same_total: float | None = None
    """The total of every row, where all rows of at least two groups have the same one."""
    wrong_drafts: tuple[int, ...] = ()
    """Groups of challenges that met a wrong draft."""
    batch_scaled: bool = False
    """Whether the logged advantages are divided by the standard deviation of the whole batch."""

    @property
    def dead_groups(self) -> int:
        return sum(self.dead.values())

    @property
    def has_groups(self) -> bool:
        """Whether any group has two rows with a reward."""
        return self.dead.get(Cause.UNGRADED, 0) < self.groups

    @property
    def several_terms_vary(self) -> bool:
        """Whether at least two terms vary within groups; where one alone does, it decides every group."""
        return sum(term.varying_groups > 0 for term in self.terms) > 1

    def json(self) -> dict[str, object]:
        """Every count, as plain values."""
        terms = [asdict(term) | {"inert": term.inert} for term in self.terms]
        for term in terms:
            for name in ("sole_groups", "shown_in", "changed_in", "saturated_in", "floored_in", "outliers", "usual"):
                del term[name]
        dead = {cause.value: count for cause, count in self.dead.items()}
        plain = asdict(self) | {"dead_groups": self.dead_groups, "dead": dead, "terms": terms}
        for name in (
            "dead_by_cause",
            "cliffs",
            "collapsed",
            "disagreeing",
            "unexplained",
            "bonus_inert",
            "wrong_drafts",
        ):
            del plain[name]  # findings name groups
        return plain | {"cliff_groups": len(self.cliffs), "collapsed_groups": len(self.collapsed)}


def diagnose(log: GroupLog, scale: Scale | None = None) -> Diagnosis:
    """Diagnose a log; without a scale, take the one that explains the logged advantages, else the group's."""
    chosen = scale or (
        "none" if _has_advantages(log) and _agrees(log, "none") and not _agrees(log, "group") else "group"
    )
    sizes = [len(group) for group in log.groups]
    unexplained, inert = _unexplained(log), _bonus_inert(log)
    disagreeing = _disagreeing(log, lambda group, number: normalise(totals(group), chosen, log.resolution))
    dead = [(number, cause) for number, cause in enumerate(group_causes(log)) if cause]
    textual = [(number, uniformity(log.groups[number])) for number, cause in dead if cause is not Cause.TRUNCATED]
    return Diagnosis(
        name=log.name,
        groups=len(log.groups),
        rows=sum(sizes),
        ungraded_rows=sum(row.total is None for row in log.rows()),
        group_sizes=(min(sizes, default=0), max(sizes, default=0)),
        scale=chosen,
        advantages_agree=None if not _has_advantages(log) else not disagreeing,
        unexplained_groups=len(unexplained) / len(log.graded) if log.graded else 0.0,
        dead=dict(Counter(cause for _, cause in dead).most_common()),
        terms=terms(log, chosen),
        bonus_bites=None if inert is None else (len(log.graded) - len(inert)) / (len(log.groups) or 1),
        reading=log.reading,
        trend=over_steps(log),
        notes=log.notes,
        dead_by_cause={cause: tuple(n for n, each in dead if each is cause) for cause in {each for _, each in dead}},
        cliffs=tuple(number for number, kind in textual if kind is Uniformity.CLIFF),
        collapsed=tuple(number for number, kind in textual if kind is Uniformity.COLLAPSE),
        truncation=_truncation(log),
        disagreeing=disagreeing,
        unexplained=unexplained,
        bonus_inert=inert or (),
        ungraded=tuple(n for n, group in enumerate(log.groups) if any(row.total is None for row in group)),
        same_total=_same_total(log),
        wrong_drafts=tuple(n for n, group in enumerate(log.groups) if any(row.opponent is False for row in group)),
        batch_scaled=bool(disagreeing) and not _disagreeing(log, _batch_normaliser(log)),
    )


def _bonus_inert(log: GroupLog) -> tuple[int, ...] | None:
    """As the game counts it; None where the log does not say which term is correctness and which are the bonus."""
    if not log.bonus or not log.groups:
        return None
    correct = log.terms.index(log.correctness)
    bonus = [log.terms.index(name) for name in log.bonus]
    return tuple(
        number
        for number, group in zip(log.graded_numbers, log.graded, strict=True)
        if not bites(column(group, correct), [sum(row.terms[k] for k in bonus) for row in group])
    )


def _has_advantages(log: GroupLog) -> bool:
    return any(row.advantage is not None for row in log.rows())


def _agrees(log: GroupLog, scale: Scale) -> bool:
    return not _disagreeing(log, lambda group, number: normalise(totals(group), scale, log.resolution))


def _disagreeing(log: GroupLog, expected: Callable[[Group, int], Sequence[float]]) -> tuple[int, ...]:
    """Graded groups whose logged advantages are not the expected ones."""
    found = []
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        pairs = zip(expected(group, number), group, strict=True)
        logged = [(ours, row.advantage) for ours, row in pairs if row.advantage is not None]
        epsilon = EPSILON / (stdev(totals(group)) + EPSILON) if len(group) > 1 else 0.0
        if any(abs(ours - theirs) > AGREES * max(1.0, abs(ours)) + epsilon * abs(ours) for ours, theirs in logged):
            found.append(number)
    return tuple(found)


def _batch_normaliser(log: GroupLog) -> Callable[[Group, int], Sequence[float]]:
    """The group's mean, and the standard deviation of all rows of its step: TRL's scale_rewards="batch"."""
    paid = defaultdict[float | None, list[float]](list)
    steps = log.steps or (None,) * len(log.groups)
    for step, group in zip(steps, log.groups, strict=True):
        paid[step] += totals(group)
    spread = {step: stdev(values) if len(values) > 1 else 0.0 for step, values in paid.items()}

    def expected(group: Group, number: int) -> list[float]:
        std = spread[steps[number]] or 1.0
        return [value / std for value in normalise(totals(group), "none", log.resolution)]

    return expected


def _truncation(log: GroupLog) -> Truncation | None:
    """What truncated rows earned; None where the log does not say which are."""
    cut = least_cut = others = least_others = 0
    groups = list[int]()
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        least = min(totals(group)) + log.resolution
        for row in group:
            at_least = row.total is not None and row.total <= least
            if row.truncated:
                cut, least_cut = cut + 1, least_cut + at_least
                if at_least and number not in groups[-1:]:
                    groups.append(number)
            elif row.truncated is not None:
                others, least_others = others + 1, least_others + at_least
    return Truncation(cut, least_cut, others, least_others, tuple(groups)) if cut else None


def _same_total(log: GroupLog) -> float | None:
    paid = [total for group in log.graded for total in totals(group)]
    return paid[0] if len(log.graded) > 1 and not varies(paid, log.resolution) else None


def _unexplained(log: GroupLog) -> tuple[int, ...]:
    """The groups in which the total varies by something that is not among the terms."""
    found = []
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        remainders = [total - sum(row.terms) for total, row in zip(totals(group), group, strict=True)]
        if varies(remainders, 10 * log.resolution):
            found.append(number)
    return tuple(found)
