"""The diagnosis of a log: its terms, its dead groups, whether the logged advantages are ours, and what follows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import stdev
from typing import Any, Literal

from agon_lens.columns import Columns, named_columns
from agon_lens.dead import Cause, Uniformity, group_causes, uniformity
from agon_lens.diagnose_page import section
from agon_lens.errors import LensError
from agon_lens.findings import (
    ALWAYS_0,
    ALWAYS_EQUAL,
    ALWAYS_PAID,
    EASY,
    HARD,
    MIXED,
    NEVER_RIGHT,
    REMEDY,
    VARY,
    Finding,
    Rank,
)
from agon_lens.groups import GroupLog, Scale, normalise, totals, varies
from agon_lens.lines import Source
from agon_lens.logs import read
from agon_lens.summary import summary
from agon_lens.terms import Term, terms
from agon_lens.trends import MANY_STEPS, StepTrend, over_steps, thirds

AGREES = 0.01
"""Logged advantages this close to ours agree: trainers log in float32."""
EPSILON = 1e-4
"""What trainers add at most to the standard deviation: much, in a group that a small term decides."""
MOSTLY = 0.9
"""Share of groups from which on a term at its maximum or minimum is reported."""
MOVED = 0.15
"""Change of a share that is reported."""
LITTLE = 0.05
"""Share of groups up to which a term is called nearly inert; share of rows or groups below which a loss is a note."""
USUAL = 0.1
"""Share of groups below which a loss is no alarm: healthy runs have some."""


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """What a log shows about its rewards. Printed it is the screen of `agon-lens diagnose`, in a notebook a table."""

    name: str
    groups: int
    rows: int
    ungraded_rows: int
    group_sizes: tuple[int, int]
    scale: Scale
    advantages_agree: bool | None
    """Whether the logged advantages are the totals normalised by group; None for a log without them."""
    dead: Mapping[Cause, int]
    """Groups without a gradient, by cause."""
    terms: tuple[Term, ...]
    findings: tuple[Finding, ...]
    """Ranked: doubts about the log, then what costs most groups, then what is worth knowing."""
    trend: tuple[StepTrend, ...]
    """Step by step; empty where the log has no steps."""
    notes: tuple[str, ...]
    """How the log was read: columns that were guessed, lines that were skipped."""

    @property
    def dead_groups(self) -> int:
        return sum(self.dead.values())

    @property
    def change_first(self) -> Finding | None:
        """The costliest finding that has a remedy."""
        return next((finding for finding in self.findings if finding.rank < Rank.NOTE and finding.fix), None)

    def json(self) -> dict[str, object]:
        """Every number, as plain values."""
        terms = [
            {name: value for name, value in asdict(term).items() if not name.endswith("_in")} | {"inert": term.inert}
            for term in self.terms
        ]
        plain = {name: getattr(self, name) for name in ("name", "groups", "rows", "ungraded_rows", "dead_groups")}
        plain |= {name: getattr(self, name) for name in ("group_sizes", "scale", "advantages_agree", "notes")}
        dead = {cause.value: count for cause, count in self.dead.items()}
        trend, found = [asdict(each) for each in self.trend], [finding.json() for finding in self.findings]
        return plain | {"dead": dead, "terms": terms, "trend": trend, "findings": found}

    def __str__(self) -> str:
        return "\n".join(summary(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return section(self)


class Diagnoses(list[Diagnosis]):
    """One diagnosis for each log: a single one, or the drafts and the answers of an Agon run."""

    def __getattr__(self, name: str) -> Any:
        """What a single log has is had by its list too."""
        if len(self) == 1:
            return getattr(self[0], name)
        raise AttributeError(f"{len(self)} logs were diagnosed: take {name} of one, diagnoses[0].{name}")

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(diagnosis._repr_html_() for diagnosis in self)


def diagnose(source: Source, columns: Columns | None = None, scale: Scale | None = None, **names: Any) -> Diagnoses:
    """Diagnose a log: a path or several, a folder, a run, a list of dicts, a DataFrame, or what `read` returns.

    Columns that are not recognised are named by keyword, `group="uid", terms=["accuracy", "format"]`, or as `Columns`.
    Without a scale ("group" or "none"), the one that explains the logged advantages is taken, else the group's.
    """
    if scale not in (None, "group", "none"):
        raise LensError(f"there is no scale {scale!r}", fix='give "group" or "none", as in the option --scale')
    logs = [source] if isinstance(source, GroupLog) else source
    if not (isinstance(logs, list) and logs and all(isinstance(log, GroupLog) for log in logs)):
        logs = read(source, named_columns(columns, names))
    return Diagnoses(diagnose_log(log, scale) for log in logs)


def diagnose_log(log: GroupLog, scale: Scale | None = None) -> Diagnosis:
    """Diagnose one log."""
    if scale is None:
        scale = (
            "none" if _has_advantages(log) and _disagreeing(log, "group") and not _disagreeing(log, "none") else "group"
        )
    sizes, measured, causes = [len(group) for group in log.groups], terms(log, scale), group_causes(log)
    disagreeing = _disagreeing(log, scale) if _has_advantages(log) else None
    trend = over_steps(log)
    if log.groups and max(sizes) < 2:
        found = [_found(log, "groups of one row", range(len(log.groups)), rows=sum(sizes))]
    else:
        rules = (
            *_about_log(log, disagreeing or []),
            *_about_rows(log, measured),
            *_about_truncation(log),
            *_about_dead(log, causes),
            *_about_trend(trend, causes),
            *(finding for term in measured if log.graded for finding in _about_term(log, term, measured)),
        )
        found = sorted(rules, key=lambda finding: (finding.rank, -finding.share))
    return Diagnosis(
        name=log.name,
        groups=len(log.groups),
        rows=sum(sizes),
        ungraded_rows=sum(row.total is None for row in log.rows()),
        group_sizes=(min(sizes, default=0), max(sizes, default=0)),
        scale=scale,
        advantages_agree=None if disagreeing is None else not disagreeing,
        dead=dict(Counter(cause for cause in causes if cause).most_common()),
        terms=measured,
        findings=tuple(found),
        trend=trend,
        notes=log.notes,
    )


def _found(log: GroupLog, kind: str, where: Sequence[int], remedy: str = "", **numbers: Any) -> Finding:
    """A finding about some groups."""
    counts = {"count": len(where), "groups": len(log.groups)}
    return Finding(kind, len(where) / len(log.groups), tuple(where), counts | numbers, remedy)


# -- what can be found -------------------------------------------------------------------------------------------------


def _about_log(log: GroupLog, disagreeing: Sequence[int]) -> Iterator[Finding]:
    everywhere, rows = range(len(log.groups)), sum(map(len, log.groups))
    if log.stepless:
        yield _found(log, "missing steps", everywhere, missing=log.stepless, rows=rows)
    unexplained = [
        number
        for number, group in zip(log.graded_numbers, log.graded, strict=True)
        if varies(
            [total - sum(row.terms) for total, row in zip(totals(group), group, strict=True)], 10 * log.resolution
        )
    ]
    if unexplained:
        yield _found(log, "unexplained total", unexplained)
    if disagreeing and not _disagreeing(log, "batch"):
        yield _found(log, "advantages scaled by batch", everywhere)
    elif disagreeing:
        yield _found(log, "other advantages", disagreeing)


def _about_rows(log: GroupLog, measured: Sequence[Term]) -> Iterator[Finding]:
    """Rewards that are missing, and those that are far too large."""
    rows, missing = sum(map(len, log.groups)), sum(row.total is None for row in log.rows())
    if missing:
        where = [number for number, group in enumerate(log.groups) if any(row.total is None for row in group)]
        found = _found(log, "ungraded rows", where, missing=missing, rows=rows)
        yield replace(found, usual=missing < LITTLE * rows)
    for term in measured:
        if 0 < len(term.outliers_in) < USUAL * len(log.groups):
            largest = max((term.min, term.max), key=abs)
            yield _found(log, "outliers", term.outliers_in, term=term.name, largest=largest, median=term.usual)


def _about_truncation(log: GroupLog) -> Iterator[Finding]:
    """Whether rows that were cut off earned the least reward of their group, and others did not."""
    cut = least_cut = others = least_others = 0
    where = list[int]()
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        least = min(totals(group)) + log.resolution
        cut_here = [row for row in group if row.truncated]
        rest = [row for row in group if row.truncated is False]
        at_least = sum((row.total or 0.0) <= least for row in cut_here)
        cut, least_cut, others = cut + len(cut_here), least_cut + at_least, others + len(rest)
        least_others += sum((row.total or 0.0) <= least for row in rest)
        where += [number] if at_least else []
    if not least_cut:
        return
    share, rest_share = least_cut / cut, least_others / others if others else 0.0
    if share >= MOSTLY and (not others or share - rest_share >= MOVED):
        truncated = cut / (cut + others)
        usual = truncated < LITTLE and len(where) < USUAL * len(log.groups)
        found = _found(log, "truncation", where, truncated=truncated, least=share, others=rest_share)
        yield replace(found, usual=usual)


def _about_dead(log: GroupLog, causes: Sequence[Cause | None]) -> Iterator[Finding]:
    dead = [number for number, cause in enumerate(causes) if cause]
    if not dead:
        return
    if len(dead) < USUAL * len(log.groups):
        yield replace(_found(log, "dead groups", dead), usual=True)
        return
    looks = {number: uniformity(log.groups[number]) for number in dead if causes[number] is not Cause.TRUNCATED}
    kinds = (("collapse", Uniformity.COLLAPSE), ("cliff", Uniformity.CLIFF))
    uniform = {kind: where for kind, look in kinds if (where := [n for n in looks if looks[n] is look])}
    worst, _ = _usual_cause(causes, dead)
    paid = [total for group in log.graded for total in totals(group)]
    equal = len(log.graded) > 1 and not varies(paid, log.resolution) and "collapse" not in uniform
    if equal and worst in (Cause.CONSTANT, Cause.ALL_WRONG):  # perhaps the verifier reads no answer
        remedy = ALWAYS_EQUAL if paid[0] and worst is Cause.CONSTANT else NEVER_RIGHT
        yield _found(log, "dead groups", dead, remedy, cause=worst.value)
        return
    yield _found(log, "dead groups", dead, "" if uniform else _remedy(causes, worst), cause=worst.value)
    for kind, where in uniform.items():
        cause, number = _usual_cause(causes, where)
        settled = kind == "collapse" and cause not in EASY  # where it solves them, it is no fault that it has settled
        remedy = VARY if settled else _remedy(causes, cause)
        yield _found(log, kind, where, remedy, cause=cause.value, of_cause=number)


def _remedy(causes: Sequence[Cause | None], cause: Cause) -> str:
    """What to change; where many problems are too hard and many too easy, neither harder nor easier ones would do."""
    easy, hard = (sum(each in kinds for each in causes) >= USUAL * len(causes) for kinds in (EASY, HARD))
    return MIXED if easy and hard and cause in (*EASY, *HARD) else REMEDY[cause]


def _usual_cause(causes: Sequence[Cause | None], where: Sequence[int]) -> tuple[Cause, int]:
    """The most frequent cause among dead groups, and in how many of them it is."""
    return Counter(cause for number in where if (cause := causes[number])).most_common(1)[0]


def _about_trend(trend: Sequence[StepTrend], causes: Sequence[Cause | None]) -> Iterator[Finding]:
    if len(trend) < MANY_STEPS:
        return
    early, late = thirds([each.dead for each in trend])
    if abs(late - early) >= MOVED:
        dead = [number for number, cause in enumerate(causes) if cause]
        shown = tuple(reversed(dead) if late > early else dead)
        yield Finding("changing dead groups", abs(late - early), shown, {"early": early, "late": late})


def _about_term(log: GroupLog, term: Term, measured: Sequence[Term]) -> Iterator[Finding]:
    name, graded = term.name, len(log.graded)
    if term.kind == "group-constant":
        everywhere = tuple(log.graded_numbers)
        if term.min < term.max:
            yield Finding("group-constant", 0.0, everywhere, {"term": name, "least": term.min, "most": term.max})
        else:
            remedy = ALWAYS_PAID if term.mean else ALWAYS_0
            yield Finding("always the same", 0.0, everywhere, {"term": name, "mean": term.mean}, remedy)
    elif term.kind == "echo":
        numbers = {"term": name, "slope": term.slope, "other": term.echo_of}
        yield Finding("echo", 0.0, tuple(term.varies_in), numbers)
    elif term.kind != "signal":
        yield Finding(term.kind, 0.0, tuple(term.varies_in), {"term": name, "share": term.varies})
    elif 0 < term.changed < LITTLE:
        yield Finding("nearly inert", 0.0, tuple(term.changes_in), {"term": name, "share": term.changed})
    for end, value, where in (("maximum", term.max, term.most_in), ("minimum", term.min, term.least_in)):
        if not term.inert and len(where) >= MOSTLY * graded:
            numbers = {"term": name, "end": end, "value": value, "share": len(where) / graded}
            yield Finding("at its end", 0.0, tuple(where), numbers)
    if term.decides_in and sum(bool(each.varies_in) for each in measured) > 1:  # if one varies, it decides everything
        little = 2 * term.amplified > len(term.decides_in) >= LITTLE * len(log.groups)
        kind = "decides by little" if little else "decides alone"
        yield _found(log, kind, term.decides_in, term=name, small=term.amplified)


# -- logged advantages -------------------------------------------------------------------------------------------------


def _has_advantages(log: GroupLog) -> bool:
    return any(row.advantage is not None for row in log.rows())


def _disagreeing(log: GroupLog, scale: Scale | Literal["batch"]) -> list[int]:
    """Graded groups whose logged advantages are not the ones of this scale; TRL's "batch" divides by the standard
    deviation of all rows of a step."""
    spread = _batch_spread(log) if scale == "batch" else {}
    found = []
    for number, group in zip(log.graded_numbers, log.graded, strict=True):
        paid = totals(group)
        ours = normalise(paid, "group" if scale == "group" else "none", log.resolution)
        if scale == "batch":
            ours = [value / spread[_step(log, number)] for value in ours]
        epsilon = EPSILON / (stdev(paid) + EPSILON)
        logged = [(mine, row.advantage) for mine, row in zip(ours, group, strict=True) if row.advantage is not None]
        if any(abs(mine - theirs) > AGREES * max(1.0, abs(mine)) + epsilon * abs(mine) for mine, theirs in logged):
            found.append(number)
    return found


def _batch_spread(log: GroupLog) -> dict[float | None, float]:
    paid = defaultdict[float | None, list[float]](list)
    for number, group in enumerate(log.groups):
        paid[_step(log, number)] += totals(group)
    return {step: (stdev(values) if len(values) > 1 else 0.0) or 1.0 for step, values in paid.items()}


def _step(log: GroupLog, number: int) -> float | None:
    return log.steps[number] if log.steps else None
