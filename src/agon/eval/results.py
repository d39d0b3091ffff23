"""The results of one evaluation, and those derived from others: the cascade by its direction, the mean of A and B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from agon.eval.intervals import optimism
from agon.eval.measures import from_outcomes, graded_only
from agon.eval.summary import html_summary, summary
from agon.formatting import html_lines
from agon.rundir.results import (
    DirectionChoice,
    EvalResult,
    Lengths,
    MeanLength,
    Outcomes,
    PairResult,
    TokenCounts,
    TokenUse,
)
from agon.types import Direction


@dataclass(frozen=True, slots=True)
class Results:
    """What `evaluate` measured, by system. `print` it for the tables."""

    folder: Path
    """Where the results and their bouts are."""
    headline: EvalResult
    """The result of the first system that was asked for: what `compare` compares."""
    systems: Mapping[str, EvalResult]
    """Every result by name."""
    pair: PairResult | None = None
    """A and B together."""
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, system: str) -> EvalResult:
        return self.systems[system]

    def __iter__(self) -> Iterator[str]:
        return iter(self.systems)

    def __str__(self) -> str:
        return "\n\n".join([summary(self.systems, self.pair), *self.notes])

    def _repr_html_(self) -> str:
        return html_summary(self.systems) + "".join(f"<p>{html_lines(note)}</p>" for note in self.notes)

    def full(self) -> str:
        """The same with leaks, lengths, costs, shared errors and distances."""
        return "\n\n".join([summary(self.systems, self.pair, full=True), *self.notes])


def chosen_cascade(ab: EvalResult, ba: EvalResult, direction: Direction) -> EvalResult:
    """The direction that dev chose, as the cascade's result; the other one's pass rate stands beside it."""
    choice = DirectionChoice(chosen=direction, by="dev", pass_rates=_rates(ab, ba))
    return _standing_for(ab if direction is Direction.AB else ba, "cascade", choice)


def post_hoc_cascade(ab: EvalResult, ba: EvalResult) -> EvalResult:
    """The paper's choice: the better direction on the evaluated problems themselves, with what that choice is worth."""
    rates = _rates(ab, ba)
    chosen = Direction.AB if (rates[Direction.AB] or 0) >= (rates[Direction.BA] or 0) else Direction.BA
    worth = optimism(*common_means(ab.measured.outcomes, ba.measured.outcomes))
    choice = DirectionChoice(chosen=chosen, by="the evaluated problems", pass_rates=rates, optimism=worth)
    return _standing_for(ab if chosen is Direction.AB else ba, "cascade-post-hoc", choice)


def _standing_for(result: EvalResult, name: str, choice: DirectionChoice) -> EvalResult:
    return result.model_copy(update={"system": name, "direction": choice})


def _rates(ab: EvalResult, ba: EvalResult) -> dict[Direction, float | None]:
    both = {Direction.AB: ab.measured.pass_rate, Direction.BA: ba.measured.pass_rate}
    return {direction: rate.value if rate else None for direction, rate in both.items()}


def common_means(one: Outcomes, two: Outcomes) -> tuple[list[float], list[float]]:
    """The share of right answers on each problem that both have graded."""
    sides = graded_only(one), graded_only(two)
    common = [problem for problem in sides[0] if problem in sides[1]]
    first, second = ([fmean(side[problem]) for problem in common] for side in sides)
    return first, second


def single_pass(a: EvalResult, b: EvalResult) -> EvalResult:
    """Both policies alone as one result: the mean of A and B, problems as units."""
    one, two = a.measured, b.measured
    outcomes = {name: [*samples, *two.outcomes[name]] for name, samples in one.outcomes.items() if name in two.outcomes}
    total = TokenCounts(
        generated=one.tokens.total.generated + two.tokens.total.generated,
        prefilled=one.tokens.total.prefilled + two.tokens.total.prefilled,
    )
    length = Lengths(
        final={"all": _pooled(one.length.final["all"], two.length.final["all"])}, truncated=None, seconds=None
    )
    tokens = TokenUse(draft=None, final=total, total=total, per_correct=None)
    return a.model_copy(
        update={
            "system": "single-pass",
            "done": a.done + b.done,
            "of": a.of + b.of,
            "records": [*a.records, *b.records],
            "measures": from_outcomes(outcomes, tokens=tokens, length=length),
        }
    )


def _pooled(one: MeanLength, two: MeanLength) -> MeanLength:
    n = one.n + two.n
    return MeanLength(n=n, mean=(one.n * (one.mean or 0) + two.n * (two.mean or 0)) / n if n else None)
