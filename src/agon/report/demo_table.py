"""The demo's one table, and the sentence that follows from it, whatever the numbers are.

Rows are ways to answer, columns are before training and after each arm. Passes and tokens stand beside the rates: an
answer in two passes costs twice. Intervals are Student's over problems, paired: every system answers the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from agon.eval.intervals import t_interval
from agon.eval.measures import graded_only
from agon.formatting import UNKNOWN, count, percent, points, table
from agon.rundir.health import BONUS
from agon.rundir.records import read_record
from agon.rundir.results import EvalResult, Interval, passes_of, tokens_of

ROWS: dict[str, tuple[str, ...]] = {
    "base, taught neither half": ("base",),
    "A alone": ("a",),
    "B alone": ("b",),
    "A reads its own draft": ("self-cascade",),
    "B reads its own draft": ("self-cascade-b",),
    "A reads B's draft": ("ba",),
    "B reads A's draft": ("ab",),
}
RIVAL, ITSELF, ALONE = ("ab", "ba"), ("self-cascade", "self-cascade-b"), ("a", "b")


@dataclass(frozen=True, slots=True)
class DemoResults:
    """What the arms measured on the same held-out problems: results by column and system."""

    columns: Mapping[str, Mapping[str, EvalResult]]
    """`before`, `agon`, `plain pair` and `GRPO`, in the order of the table."""

    @classmethod
    def read(cls, pair: Path, apart: Path, grpo: Path) -> DemoResults:
        """From the run directories of the demo."""
        return cls(
            {
                "before": _read(pair / "evals" / "held_out@0") | _only(_read(pair / "evals" / "held_out"), "base"),
                "agon": _read(pair / "evals" / "held_out"),
                "plain pair": _read(apart / "evals" / "held_out"),
                "GRPO": _read(grpo / "evals" / "held_out"),
            }
        )

    def rate(self, column: str, systems: Sequence[str]) -> float:
        """The share of right answers, mean over some systems."""
        return fmean(self.means(column, systems).values())

    def means(self, column: str, systems: Sequence[str]) -> dict[str, float]:
        """By problem: the mean over some systems."""
        graded = [graded_only(self.columns[column][name].measured.outcomes) for name in systems]
        shared = [problem for problem in graded[0] if all(problem in each for each in graded)]
        return {problem: fmean(fmean(each[problem]) for each in graded) for problem in shared}

    def difference(self, one: tuple[str, Sequence[str]], two: tuple[str, Sequence[str]]) -> Interval:
        """How many more problems the first solves, paired by problem."""
        first, second = self.means(*one), self.means(*two)
        return t_interval([first[problem] - second[problem] for problem in first if problem in second])


def _read(folder: Path) -> dict[str, EvalResult]:
    return {file.stem: read_record(file, EvalResult, fix="") for file in folder.glob("*.json") if file.stem != "pair"}


def _only(results: Mapping[str, EvalResult], name: str) -> dict[str, EvalResult]:
    return {name: results[name]} if name in results else {}


def demo_table(results: DemoResults) -> str:
    """The table as text."""
    rows = []
    for title, (system,) in ROWS.items():
        cells = [_cell(results.columns[name].get(system), name) for name in results.columns]
        known = [held[system] for held in results.columns.values() if system in held]
        tokens = fmean(tokens_of(result.measured) for result in known)
        rows.append((title, *cells, str(passes_of(known[0].measured)), count(tokens)))
    return table(("right answers", *results.columns, "passes", "tokens"), rows)


def _cell(result: EvalResult | None, column: str) -> str:
    """A rate; the base is the same in every column and stands in the first."""
    if result is None or result.measured.pass_rate is None or (result.system == "base" and column != "before"):
        return UNKNOWN
    return percent(result.measured.pass_rate.value)


def conclusion(results: DemoResults) -> str:
    """One sentence that follows from the numbers."""
    pair, grpo = results.rate("agon", RIVAL), results.rate("GRPO", ("self-cascade",))
    itself, apart = results.rate("agon", ITSELF), results.rate("plain pair", RIVAL)
    before, learnt = results.rate("before", RIVAL), results.difference(("agon", RIVAL), ("before", RIVAL))
    reading = results.difference(("agon", RIVAL), ("agon", ITSELF))
    against = results.difference(("agon", RIVAL), ("GRPO", ("self-cascade",)))
    first = {1: "gain from", 0: "are not shown to gain from", -1: "lose by"}
    second = {1: "and beat", 0: "and are not shown to differ from", -1: "and fall behind"}
    return (
        f"Two policies that were taught different things {first[sign(reading)]} reading each other: over both "
        f"directions they answer {percent(pair, 1)} right after reading their rival, which was {percent(before, 1)} "
        f"before any training ({points(learnt)}), and {percent(itself, 1)} after reading themselves "
        f"({points(reading)}), {second[sign(against)]} GRPO on as many rollouts, which answers "
        f"{percent(grpo, 1)} in as many passes ({points(against)}); "
        f"a pair that was trained apart and meets only now answers {percent(apart, 1)}."
    )


def bonus_note(share: float) -> str:
    """What the bonus did, by the share of groups in which it changed an advantage."""
    if share >= BONUS:
        return f"The bonus changed what was learnt in {percent(share)} of the groups."
    return (
        f"The bonus hardly acts in a demo this small: it changed what was learnt in {percent(share, 1)} of the groups, "
        "as most problems are solved always or never. So this is about reading a rival's draft, not about the bonus; "
        "report and diagnose will say so too."
    )


def sign(difference: Interval) -> int:
    """1 or -1 where the interval is on one side of zero, else 0."""
    if difference.low is None or difference.high is None:
        return 0
    return 1 if difference.low > 0 else -1 if difference.high < 0 else 0
