"""The demo's one table, and the sentence that follows from it, whatever the numbers are.

Rows are ways to answer. Passes and tokens stand beside the rates: an answer in two passes costs twice. Intervals are
Student's over problems, paired: every system answers the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from agon.eval.intervals import t_interval
from agon.eval.measures import graded_only
from agon.formatting import count, percent, points, table
from agon.rundir.records import read_record
from agon.rundir.results import EvalResult, Interval, passes_of, tokens_of


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer: whose, and over which systems it is the mean."""

    title: str
    method: str
    systems: Sequence[str]


GRPO = Way("GRPO", "grpo", ("a",))
ALONE = Way("pair, each alone", "pair", ("a", "b"))
READING = Way("pair, one reads the other's draft", "pair", ("ab", "ba"))


@dataclass(frozen=True, slots=True)
class DemoResults:
    """What both methods measured on the same held-out problems: results by method and system."""

    before: Mapping[str, Mapping[str, EvalResult]]
    after: Mapping[str, Mapping[str, EvalResult]]

    @classmethod
    def read(cls, grpo: Path, pair: Path) -> DemoResults:
        """From the run directories of the demo."""
        runs = {"grpo": grpo, "pair": pair}
        before, after = (
            {name: _read(run / "evals" / data) for name, run in runs.items()} for data in ("held_out@0", "held_out")
        )
        return cls(before, after)

    @property
    def problems(self) -> int:
        return len(_means(self.after, GRPO))

    def rise(self, way: Way) -> Interval:
        """How many more problems it solves after training than before, paired by problem."""
        return _difference(_means(self.after, way), _means(self.before, way))

    def over_grpo(self, way: Way) -> Interval:
        """The same after training, less GRPO's."""
        return _difference(_means(self.after, way), _means(self.after, GRPO))


def _read(folder: Path) -> dict[str, EvalResult]:
    return {file.stem: read_record(file, EvalResult, fix="") for file in folder.glob("*.json") if file.stem != "pair"}


def _means(results: Mapping[str, Mapping[str, EvalResult]], way: Way) -> dict[str, float]:
    """By problem: the mean over the way's systems."""
    graded = [graded_only(results[way.method][name].measured.outcomes) for name in way.systems]
    shared = [problem for problem in graded[0] if all(problem in each for each in graded)]
    return {problem: fmean(fmean(each[problem]) for each in graded) for problem in shared}


def _difference(first: Mapping[str, float], second: Mapping[str, float]) -> Interval:
    return t_interval([first[problem] - second[problem] for problem in first if problem in second])


def demo_table(results: DemoResults) -> str:
    """The table as text."""
    rows = []
    for way in (GRPO, ALONE, READING):
        held = [results.after[way.method][name].measured for name in way.systems]
        rates = [percent(fmean(_means(each, way).values()), 1) for each in (results.before, results.after)]
        tokens = fmean(map(tokens_of, held))
        rows.append((way.title, *rates, points(results.rise(way)), str(passes_of(held[0])), count(tokens)))
    return table(("right answers", "before", "after", "rise [95%]", "passes", "tokens"), rows)


def conclusion(results: DemoResults) -> str:
    """One sentence that follows from the numbers."""
    gap = results.over_grpo(READING)
    beside = {1: "is ahead of", 0: "is not shown to differ from", -1: "is behind"}[sign(gap)]
    return (
        f"On as many rollouts GRPO {_moved(results.rise(GRPO))} and the pair {_moved(results.rise(READING))}; "
        f"with two passes for an answer the pair {beside} GRPO with one ({points(gap)})."
    )


def _moved(rise: Interval) -> str:
    return {1: "rose", 0: "is not shown to have moved", -1: "fell"}[sign(rise)] + f" ({points(rise)})"


def sign(difference: Interval) -> int:
    """1 or -1 where the interval is on one side of zero, else 0."""
    if difference.low is None or difference.high is None:
        return 0
    return 1 if difference.low > 0 else -1 if difference.high < 0 else 0
