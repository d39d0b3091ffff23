"""One number of a table: a method on some problems, over all seeds there are, with n, interval and length beside it.

One seed: the interval of its result, over problems. Several seeds: Student's interval over seeds, which is what a claim
about a method needs; the paper has one run per method and the first kind only. Seeds that agree exactly do so by chance
and have no spread to reckon with: the widest of their own intervals stands instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agon.eval.intervals import t_interval
from agon.report.collect import Run

MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Method:
    """A row: what was trained, and how it answers. `arm` None is the bare base, measured in any run of the setting."""

    key: str
    title: str
    arm: str | None
    system: str
    passes: int

    def commands(self) -> str:
        """What to type to have it measured."""
        train = f"`agon train CONFIG arm={self.arm}`, then " if self.arm else "in any run "
        return f"{train}`agon eval RUN --system {self.system}`"


METHODS = (
    Method("zero-shot", "Zero-shot", None, "base", 1),
    Method("grpo", "Vanilla GRPO (baseline)", "grpo", "a", 1),
    Method("self-refine", "Self-refinement (control)", "self-refine", "self-refine", 2),
    Method("self-cascade", "GRPO two-pass self-cascade (control)", "grpo", "self-cascade", 2),
    Method("moa", "MoA (no training)", None, "moa", 2),
    Method("shared-opponent", "Competitive, shared opponent", "shared-opponent", "single-pass", 1),
    Method("coop", "Cooperative exchange", "coop", "cascade", 2),
    Method("agon", "Agon (competition + exchange)", "agon", "cascade", 2),
    Method("margin", "Margin reward", "margin", "cascade", 2),
    Method("fixed-roles", "Fixed roles", "fixed-roles", "cascade", 2),
    Method("tiebreak", "Agon + length tiebreak", "tiebreak", "cascade", 2),
    Method("hidden-drafts", "Hidden drafts, per rollout (ours)", "hidden-drafts", "single-pass", 1),
    Method("mispaired", "Shown one draft, paid on another (ours)", "mispaired", "cascade", 2),
)
BY_KEY = {method.key: method for method in METHODS}


@dataclass(frozen=True, slots=True)
class Number:
    """A mean with the limits of its interval, as shares."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Cell:
    """The results of one method on one set of problems, one for each run."""

    method: Method
    results: Sequence[Mapping[str, Any]]
    runs: Sequence[Run]

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs})

    @property
    def n(self) -> str:
        return _range([int(result["problems"]) for result in self.results])

    @property
    def rate(self) -> Number:
        """The pass rate; over seeds where there are several that differ."""
        if self.alike:
            found = max((result["pass"] for result in self.results), key=lambda each: each["high"] - each["low"])
            return Number(found["value"], found["low"], found["high"])
        across = t_interval([result["pass"]["value"] for result in self.results], floor=0.0, ceiling=1.0)
        return Number(across.value, across.low, across.high)

    @property
    def kind(self) -> str:
        """What the interval is about."""
        if not self.alike:
            return "Student, over seeds"
        return str(self.results[0]["interval"]) + (", the seeds being equal" if len(self.results) > 1 else "")

    @property
    def alike(self) -> bool:
        """Whether all runs have one rate: then there is no spread over seeds, or only one seed."""
        return len({result["pass"]["value"] for result in self.results}) == 1

    @property
    def length(self) -> float | None:
        """Mean tokens of the final stage."""
        means = [result["length"]["final"]["all"]["mean"] for result in self.results]
        return fmean(means) if all(mean is not None for mean in means) else None

    @property
    def tokens(self) -> float:
        """Tokens generated for one problem, all stages."""
        return fmean(result["tokens"]["total"]["generated"] / max(1, result["trials"]) for result in self.results)


def cell(runs: Iterable[Run], key: str, data: str) -> Cell | None:
    """What these runs say about a method; None when they say nothing."""
    method, found = BY_KEY[key], list[tuple[Run, Mapping[str, Any]]]()
    for run in runs:
        result = run.results.get((data, method.system))
        if result and result["pass"]["value"] is not None and method.arm in (None, run.arm):
            found.append((run, result))
    if method.arm is None:
        found = _once_per_seed(found)
    return Cell(method, [result for _, result in found], [run for run, _ in found]) if found else None


def _once_per_seed(found: Sequence[tuple[Run, Mapping[str, Any]]]) -> list[tuple[Run, Mapping[str, Any]]]:
    """The bare base is the same in every arm: of several evaluations with one seed the first counts."""
    first: dict[int, tuple[Run, Mapping[str, Any]]] = {}
    for run, result in found:
        first.setdefault(run.seed, (run, result))
    return list(first.values())


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
