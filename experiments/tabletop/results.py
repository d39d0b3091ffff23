"""The table of results: its rows, what is measured of a run, and differences between arms, paired by seed."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import comb, sqrt
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from scipy import optimize, stats

TABLE = Path(__file__).resolve().parent / "results.csv"
LEVEL = 0.05
MARGIN = 0.01
"""A claim whose whole interval is below this is not supported."""
PAIR = ("ab", "ba")


# -- rows and runs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """A row of the table: one system of a run, on one set of problems."""

    row: dict[str, str]

    def __getitem__(self, column: str) -> float:
        return float(self.row[column])

    @property
    def rate(self) -> float:
        return self["right"] / self["trials"]

    @property
    def kept(self) -> float:
        """P(right | right draft)."""
        return 1 - self["lost"] / self["draft_right"]

    @property
    def converted(self) -> float:
        """P(right | wrong draft)."""
        return self["converted"] / self["draft_wrong"]

    @property
    def echoed(self) -> float:
        """P(the same wrong answer | wrong draft)."""
        return self["echoed"] / self["draft_wrong"]

    @property
    def by_problem(self) -> list[float]:
        """The share of right samples of each problem."""
        return [int(right) / self["samples"] for right in self.row["by_problem"]]

    @property
    def majority(self) -> float:
        return self["majority"] / len(self.by_problem)

    @property
    def pass_at_2(self) -> float:
        """Unbiased, from all samples."""
        n = int(self["samples"])
        return fmean(1 - comb(n - int(right), 2) / comb(n, 2) for right in self.row["by_problem"])


@dataclass(frozen=True)
class Run:
    """One cell of a plan, with every system that was measured of it, by set of problems, step and name."""

    world: str
    arm: str
    variant: str
    seed: int
    measured: dict[tuple[str, str, str], System] = field(repr=False)

    def systems(self, of: str = "held_out", step: str = "") -> dict[str, System]:
        return {name: system for (kind, at, name), system in self.measured.items() if (kind, at) == (of, step)}

    def of_run(self, column: str) -> str:
        """A column that says the same in every row of the run."""
        return next(iter(self.measured.values())).row[column]


Runs = Sequence[Run]
Measure = Callable[[Run], float]


def read(path: Path = TABLE) -> list[Run]:
    """Every run, in the order of the plans. What was measured before any training has the arm ''."""
    runs: dict[tuple[str, str, str, str], Run] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            world, arm, variant, seed = key = (row["world"], row["arm"], row["variant"], row["seed"])
            run = runs.setdefault(key, Run(world, arm, variant, int(seed or -1), {}))
            run.measured[row["set"], row["step"], row["system"]] = System(row)
    return list(runs.values())


def pick(runs: Runs, world: str, arm: str, variant: str = "") -> list[Run]:
    return [run for run in runs if (run.world, run.arm, run.variant) == (world, arm, variant)]


# -- measures of a run ------------------------------------------------------------------------------------------------


def rate(system: System) -> float:
    return system.rate


def mean_of(*names: str, of: Callable[[System], float] = rate, at: str = "held_out", step: str = "") -> Measure:
    """The mean of a measure over some systems."""
    return lambda run: fmean(of(run.systems(at, step)[name]) for name in names)


def answering(run: Run, at: str = "held_out") -> tuple[str, ...]:
    """The systems whose mean is the number of a run: both directions of a pair, the refinement, or the single pass."""
    names = run.systems(at).keys()
    return next(these for these in (PAIR, ("self-refine",), ("a",)) if names >= set(these))


def number(run: Run) -> float:
    return mean_of(*answering(run))(run)


def best_on_dev(run: Run) -> float:
    """The number of a run with the weights of its best point on dev."""
    return mean_of(*answering(run), at="best")(run)


def chosen(run: Run) -> float:
    """In the direction that is better on one half of the problems, measured on the other half; both ways round."""
    ab, ba = (run.systems()[name].by_problem for name in PAIR)
    halves = [(slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))]
    return fmean(fmean((ab if sum(ab[here]) >= sum(ba[here]) else ba)[there]) for here, there in halves)


def better(run: Run) -> float:
    """In the direction that is better on the problems it is measured on."""
    return max(run.systems()[name].rate for name in PAIR)


def either(run: Run) -> float:
    """How often A or B is right alone, drawn independently."""
    a, b = (run.systems()[name].by_problem for name in ("a", "b"))
    return fmean(1 - (1 - x) * (1 - y) for x, y in zip(a, b, strict=True))


NAMED = {"": number, "chosen": chosen, "better": better, "best on dev": best_on_dev}


# -- differences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A difference between two measures, one value per seed."""

    values: list[float]
    p: float | None = None
    """After Holm's correction over a family of tests."""
    family: int = 1

    @property
    def same(self) -> bool:
        """Whether all seeds agree, but for rounding."""
        return float(np.ptp(self.values)) < 1e-12

    @property
    def interval(self) -> tuple[float, float, float]:
        """Mean and Student's 95% interval; where all seeds agree, how often one more would differ is bounded."""
        n, mean = len(self.values), float(np.mean(self.values))
        half = float(stats.t.ppf(0.975, n - 1) * np.std(self.values, ddof=1) / sqrt(n))
        if self.same:
            half = float(stats.binomtest(0, n).proportion_ci(0.95, method="exact").high)
        return mean, mean - half, mean + half

    @property
    def raw_p(self) -> float:
        if self.same:
            return 1.0 if abs(self.values[0]) < 1e-12 else 0.5 ** (len(self.values) - 1)
        return float(stats.ttest_1samp(self.values, 0.0).pvalue)

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def detectable(self) -> float:
        """The smallest effect that is found four times in five at the strictest step of Holm's correction."""
        n, sd = len(self.values), stdev(self.values)
        critical = stats.t.ppf(1 - LEVEL / self.family / 2, n - 1)

        def missing(effect: float) -> float:
            found = float(stats.nct.sf(critical, n - 1, effect * sqrt(n) / sd))
            return 0.8 - (1.0 if np.isnan(found) else found)  # scipy has no noncentral t far out

        return float(optimize.brentq(missing, 0.0, 20 * sd / sqrt(n)))

    @property
    def verdict(self) -> str:
        _, low, high = self.interval
        if low > 0 and self.significant:
            return "supported"
        found = "not supported" if high < MARGIN else "undecided"
        return f"{found} (below zero)" if high < 0 and self.significant else found

    def __str__(self) -> str:
        if self.same:
            return f"{100 * self.values[0]:+z.1f} points with every seed"
        return "{:+z.1f} points [{:+z.1f}, {:+z.1f}]".format(*(100 * x for x in self.interval))


def difference(runs: Runs, world: str, first: str, second: str, of: Measure | None = None) -> Difference:
    """First less second, over the seeds that both have.

    A side is ARM[/VARIANT][:MEASURE]; a measure is one of NAMED, or systems whose mean it is (`a+b`). `of` replaces it.
    """

    def by_seed(side: str) -> dict[int, float]:
        name, _, measure = side.partition(":")
        arm, _, variant = name.partition("/")
        measured = of or NAMED.get(measure) or mean_of(*measure.split("+"))
        return {run.seed: measured(run) for run in pick(runs, world, arm, variant)}

    one, two = by_seed(first), by_seed(second)
    return Difference([one[seed] - two[seed] for seed in sorted(one.keys() & two.keys())])


def holm(differences: dict[str, Difference]) -> dict[str, Difference]:
    """The same differences with p-values under Holm's step-down correction over all of them."""
    running, corrected, left = 0.0, {}, len(differences)
    for key, one in sorted(differences.items(), key=lambda item: item[1].raw_p):
        running = max(running, min(1.0, left * one.raw_p))
        corrected[key], left = Difference(one.values, running, len(differences)), left - 1
    return {key: corrected[key] for key in differences}


# -- how numbers are written ------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; columns of numbers are aligned to the right."""
    rows = list(rows)
    numeric = [k > 0 and all(re.match(r"[-+\d]|$", row[k]) for row in rows) for k in range(len(head))]
    lines = [head, ["---:" if right else "---" for right in numeric], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(values: Iterable[float]) -> str:
    values = list(values)
    return f"{100 * fmean(values):.1f}" if values else ""


def probability(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def with_seeds(found: Difference) -> tuple[str, str]:
    return str(found), str(len(found.values))


def bonus_acts(runs: Runs) -> str:
    """The share of groups of challenges whose advantages the bonus changes."""
    shares = [float(share) for run in runs if (share := run.of_run("bonus_acts"))]
    return f"{100 * fmean(shares):.0f}%" if shares else ""


def spent(runs: Runs) -> str:
    return f"{sum(float(run.of_run('cpu_seconds')) for run in runs) / 3600:.1f} hours of CPU time"
