"""Results against each other: paired by problem, paired by seed where there are several, Holm over the family.

The first side is the reference. One run each: exact McNemar and a paired bootstrap over problems (or, with several
samples per problem, Student's test on per-problem differences); that speaks of the problems, not of other seeds. Two
or more common seeds: the t interval over seed-paired differences decides, and problems are not resampled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from agon.errors import InputError
from agon.eval import intervals
from agon.eval.measures import interval
from agon.eval.result import Result

ALPHA = 0.05
SAME = ("base", "temperature", "top_p", "max_completion_tokens", "max_peek_tokens", "verifier", "prompts", "engine")
"""Settings in which a difference is said aloud."""


@dataclass(frozen=True, slots=True)
class Side:
    """One row of a comparison: the results of one arm and system, by seed."""

    label: str
    results: Mapping[int | None, Result]

    def outcomes(self, seed: int | None, problems: Sequence[str]) -> list[list[bool]]:
        """Graded outcomes on some problems."""
        found = self.results[seed].outcomes
        return [[o for o in found[p] if o is not None] for p in problems]

    def rate(self, seed: int | None, problems: Sequence[str]) -> float:
        """Mean over problems of their samples' mean."""
        return fmean(fmean(each) for each in self.outcomes(seed, problems))


@dataclass(slots=True)
class Comparison:
    """What was found, as plain values, and what has to be said beside it."""

    problems: list[str]
    sides: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {"problems": len(self.problems), "sides": self.sides, "comparisons": self.pairs, "notes": self.notes}


def compare(results: Sequence[Result]) -> Comparison:
    """The first side with each of the others, on the problems that all of them answered."""
    sides = grouped(results)
    if len(sides) < 2:
        told = "the results are seeds of one arm and system" if len(results) > 1 else "one result"
        raise InputError(f"{told}: nothing to compare with", fix="name results of at least two arms or systems")
    problems, notes = common(results)
    notes += differing(results)
    pairs = [pair(sides[0], other, problems) for other in sides[1:]]
    adjusted = intervals.holm([1.0 if each["p"] is None else each["p"] for each in pairs])
    for each, p in zip(pairs, adjusted, strict=True):
        each["p_holm"] = None if each["p"] is None else p
        each["decided"] = each["p"] is not None and p < ALPHA
    return Comparison(problems, [describe(side, problems) for side in sides], pairs, notes + post_hoc(results))


def grouped(results: Sequence[Result]) -> list[Side]:
    """Results of one arm, system and base with different seeds are one side; others stand alone, by the run's name."""
    found: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in results:
        found[(result.arm or result.run, result.system, str(result.raw["settings"]["base"]))].append(result)
    sides = []
    for (name, system, _), group in found.items():
        if len({result.seed for result in group}) == len(group):
            sides.append(Side(f"{name} {system}", {result.seed: result for result in group}))
        else:
            sides += [Side(f"{result.run} {system}", {result.seed: result}) for result in group]
    labels = [side.label for side in sides]
    return [
        Side(f"{side.label} ({_base(side)})" if labels.count(side.label) > 1 else side.label, side.results)
        for side in sides
    ]


def _base(side: Side) -> str:
    first = next(iter(side.results.values()))
    return str(first.raw["settings"]["base"]) if first.arm else str(first.path)


def common(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """The problems that every result graded, in the order of the first, and what was left out."""
    graded = [{p for p, each in r.outcomes.items() if any(o is not None for o in each)} for r in results]
    shared = set.intersection(*graded)
    if not shared:
        raise InputError("the results have no problem in common", fix="compare results on the same data")
    left = max(len(each - shared) for each in graded)
    told = f"restricted to the {len(shared)} problems in common: up to {left} of a result are left out"
    return [p for p in results[0].outcomes if p in shared], [told] if left else []


def differing(results: Sequence[Result]) -> list[str]:
    """Settings that are not the same everywhere."""
    notes = []
    for key in SAME:
        values = {str(result.raw["settings"].get(key)) for result in results}
        if len(values) > 1:
            notes.append(f"beware: {key} differs ({', '.join(sorted(values))})")
    return notes


def post_hoc(results: Sequence[Result]) -> list[str]:
    """What a direction chosen on the evaluated problems is worth by itself."""
    return [
        f"{result.run} {result.system}: its direction was chosen on these problems, worth about "
        f"{100 * result.raw['direction']['optimism']:.1f} points by itself"
        for result in results
        if "optimism" in result.raw.get("direction", {})
    ]


def describe(side: Side, problems: Sequence[str]) -> dict[str, Any]:
    """A side's rate: with one run, the interval over problems; with several seeds, each value and the t interval."""
    values = {str(seed): side.rate(seed, problems) for seed in side.results}
    told: dict[str, Any] = {"label": side.label, "values": values}
    if len(values) == 1:
        (seed,) = side.results
        return told | {"pass": interval(intervals.rate(side.outcomes(seed, problems))), "over": "problems"}
    return told | {"pass": _finite(intervals.t_interval(list(values.values()), floor=0, ceiling=1)), "over": "seeds"}


def pair(first: Side, second: Side, problems: Sequence[str]) -> dict[str, Any]:
    """second - first, by whatever the two have in common."""
    seeds = [seed for seed in first.results if seed in second.results]
    head: dict[str, Any] = {"first": first.label, "second": second.label, "problems": len(problems)}
    if len(seeds) >= 2:
        return head | _by_seed(first, second, seeds, problems)
    one, two = (next(iter(side.results)) for side in (first, second))
    if len(first.results) > 1 or len(second.results) > 1:
        one, two = (seeds[0], seeds[0]) if seeds else (one, two)
        head["note"] = f"fewer than two seeds in common: seed {one} against seed {two} alone"
    return head | _by_problem(first.outcomes(one, problems), second.outcomes(two, problems))


def _by_seed(first: Side, second: Side, seeds: Sequence[int | None], problems: Sequence[str]) -> dict[str, Any]:
    differences = {str(s): second.rate(s, problems) - first.rate(s, problems) for s in seeds}
    values = list(differences.values())
    return {
        "test": "Student's t over seed-paired differences",
        "seeds": len(seeds),
        "differences": differences,
        "difference": _finite(intervals.t_interval(values)),
        "bootstrap": _finite(intervals.bootstrap(values)) | {"descriptive": len(seeds) < intervals.FEW_SEEDS},
        "p": intervals.t_test(values),
        "detectable": _detectable(values),
    }


def _by_problem(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> dict[str, Any]:
    if all(len(each) == 1 for each in (*first, *second)):
        found = intervals.paired([each[0] for each in first], [each[0] for each in second])
        disagree = (found.only_first + found.only_second) / found.n
        return {
            "test": "exact McNemar",
            "only_first": found.only_first,
            "only_second": found.only_second,
            "difference": _finite(found.difference),
            "p": found.p_value,
            "detectable": _number(intervals.detectable(found.n, disagree)) if disagree else None,
        }
    differences = intervals.differences(first, second)
    return {
        "test": "Student's t over per-problem differences",
        "difference": _finite(intervals.paired_clustered(first, second)),
        "p": intervals.t_test(differences),
        "detectable": _detectable(differences),
    }


def _detectable(differences: Sequence[float]) -> float | None:
    """The smallest effect that would be found; None where nothing varies."""
    if len(differences) < 2 or intervals.agree(differences):
        return None
    return _number(intervals.detectable_across_seeds(stdev(differences), len(differences)))


def _finite(found: intervals.Interval) -> dict[str, float | None]:
    return {name: _number(value) for name, value in interval(found).items() if value is not None}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
