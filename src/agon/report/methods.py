"""One number of a table: a method on some problems, over all seeds there are, with n, interval and length beside it.

One seed: the interval of its result, over problems. Several seeds: Student's interval over seeds, which is what a claim
about a method needs; the paper has one run per method and the first kind only. Seeds that agree exactly do so by chance
and have no spread to compute with: the widest of their own intervals is shown instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from agon.config.arms import resolve
from agon.eval.intervals import t_interval
from agon.eval.systems import headline
from agon.game.rules import Game
from agon.report.collect import MeasuredRun
from agon.rundir.results import Interval, Measures, passes_of, tokens_of


@dataclass(frozen=True, slots=True)
class Method:
    """A row: what was trained, and how it answers. `arm` None is the bare base, measured in any run of the setting."""

    key: str
    title: str
    arm: str | None
    control: str | None = None
    """The system, where it is not the one that the arm deploys."""

    @property
    def system(self) -> str:
        return self.control or headline(Game(**resolve(self.arm)) if self.arm else None)

    def commands(self) -> str:
        """What to type to measure it."""
        train = f"`agon train CONFIG arm={self.arm}`, then " if self.arm else "in any run "
        return f"{train}`agon eval RUN --system {self.system}`"


METHODS = (
    Method("zero-shot", "Zero-shot", None),
    Method("grpo", "Vanilla GRPO (baseline)", "grpo"),
    Method("self-refine", "Self-refinement (control)", "self-refine"),
    Method("self-cascade", "GRPO two-pass self-cascade (control)", "grpo", "self-cascade"),
    Method("moa", "MoA (no training)", None, "moa"),
    Method("shared-opponent", "Competitive, shared opponent", "shared-opponent"),
    Method("coop", "Cooperative exchange", "coop"),
    Method("agon", "Agon (competition + exchange)", "agon"),
    Method("margin", "Margin reward", "margin"),
    Method("fixed-roles", "Fixed roles", "fixed-roles"),
    Method("tiebreak", "Agon + length tiebreak", "tiebreak"),
    Method("hidden-drafts", "Hidden drafts, per rollout (ours)", "hidden-drafts"),
    Method("mispaired", "Shown one draft, paid on another (ours)", "mispaired"),
    Method("plain-pair", "Plain pair, trained apart (ours)", "plain-pair"),
)
BY_KEY = {method.key: method for method in METHODS}


@dataclass(frozen=True, slots=True)
class TableCell:
    """What some runs measured of one method on one set of problems."""

    method: Method
    runs: Sequence[MeasuredRun]
    measures: Sequence[Measures]
    """One for each run, with a pass rate."""

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs})

    @property
    def n(self) -> str:
        """Problems behind the rate, and how many were asked where some could not be graded."""
        values = [measures.problems for measures in self.measures]
        low, high, asked = min(values), max(values), max(len(measures.outcomes) for measures in self.measures)
        told = f"{low}" if low == high else f"{low} to {high}"
        return told if low == asked else f"{told} of {asked}"

    @property
    def rates(self) -> list[Interval]:
        return [measures.pass_rate for measures in self.measures if measures.pass_rate]

    @property
    def rate(self) -> Interval:
        """The pass rate; over seeds where there are several that differ."""
        if self.alike:
            return max(self.rates, key=lambda rate: limits(rate)[1] - limits(rate)[0])
        return t_interval([rate.value for rate in self.rates], floor=0.0, ceiling=1.0)

    @property
    def kind(self) -> str:
        """What the interval is over."""
        if not self.alike:
            return "Student, over seeds" if len(self.seeds) == len(self.runs) else "Student, over runs"
        return self.measures[0].interval + (", the seeds being equal" if len(self.measures) > 1 else "")

    @property
    def alike(self) -> bool:
        """Whether all runs have one rate: then there is no spread over seeds, or only one seed."""
        return len({rate.value for rate in self.rates}) == 1

    @property
    def passes(self) -> int:
        """Completions in sequence that one answer takes."""
        return passes_of(self.measures[0])

    @property
    def length(self) -> float | None:
        """Mean tokens of the final stage."""
        lengths = [measures.length.final.get("all") for measures in self.measures]
        means = [length.mean for length in lengths if length and length.mean is not None]
        return fmean(means) if len(means) == len(lengths) else None

    @property
    def tokens(self) -> float:
        """Tokens generated for one problem, all stages."""
        return fmean(map(tokens_of, self.measures))


def limits(rate: Interval) -> tuple[float, float]:
    """Both limits of a share; one that is unbounded is 0 or 1."""
    return 0.0 if rate.low is None else rate.low, 1.0 if rate.high is None else rate.high


def cell(runs: Iterable[MeasuredRun], key: str, data: str) -> TableCell | None:
    """What these runs measured of a method; None when they did not."""
    method, measured = BY_KEY[key], list[tuple[MeasuredRun, Measures]]()
    for run in runs:
        result = run.results.get((data, method.system))
        if result and result.measured.pass_rate and method.arm in (None, run.arm):
            measured.append((run, result.measured))
    if method.arm is None:
        measured = _once_per_seed(measured)
    return TableCell(method, *zip(*measured, strict=True)) if measured else None


def _once_per_seed(measured: Iterable[tuple[MeasuredRun, Measures]]) -> list[tuple[MeasuredRun, Measures]]:
    """The bare base is the same in every arm: of several evaluations with one seed the first counts."""
    first: dict[int, tuple[MeasuredRun, Measures]] = {}
    for run, measures in measured:
        first.setdefault(run.seed, (run, measures))
    return list(first.values())
