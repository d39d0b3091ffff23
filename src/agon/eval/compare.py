"""Results compared: paired by problem, paired by seed where there are several, Holm over the family.

The first side is the reference. One run each: exact McNemar and a score interval over problems (or, with several
samples per problem, Student's test on per-problem differences); that speaks of the problems, not of other seeds. Two
or more common seeds: the t interval over seed-paired differences decides, and problems are not resampled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Protocol

from agon.errors import InputError, RunDirError
from agon.eval import intervals
from agon.eval.measures import graded_only
from agon.eval.results import Results
from agon.eval.systems import headline
from agon.formatting import (
    count,
    escape_markdown,
    html_lines,
    html_table,
    interval,
    markdown_table,
    plural,
    points,
    probability,
    show_hidden,
    table,
)
from agon.rundir import RunDir
from agon.rundir.records import Record
from agon.rundir.results import ALPHA, EvalResult, Interval, PairedTest, SideResult, passes_of, read_result, tokens_of

SAME = (
    "base", "temperature", "top_p", "max_completion_tokens", "max_peek_tokens", "show_code", "verifier", "time_factor",
    "prompts", "engine",
)  # fmt: skip
"""Settings in which a difference is reported."""
FEWEST = 6
"""Problems on which two sides must differ before McNemar's test can reach p < 0.05: 2 x 0.5^6 = 0.031."""
SECOND_FILE = (
    "name a second file: agon compare OLD.jsonl NEW.jsonl, or agon compare old=A1.csv,A2.csv new=B1.csv,B2.csv"
)
SECOND = "name a second run, or two results, such as RUN/evals/held_out/a.json RUN/evals/held_out/cascade.json"


@dataclass(frozen=True, slots=True)
class Side:
    """One row of a comparison: the results of one arm and system, by seed."""

    label: str
    results: Mapping[int | None, EvalResult]

    def outcomes(self, seed: int | None, problems: Sequence[str]) -> list[list[bool]]:
        """Graded outcomes on some problems."""
        graded = graded_only(self.results[seed].measured.outcomes)
        return [graded[problem] for problem in problems]

    def rate(self, seed: int | None, problems: Sequence[str]) -> float:
        """Mean over problems of their samples' mean."""
        return fmean(fmean(samples) for samples in self.outcomes(seed, problems))


class PairedSide(Protocol):
    """What a paired test asks of a side: its seeds, and its scores on some problems."""

    @property
    def label(self) -> str: ...
    @property
    def results(self) -> Mapping[Any, Any]: ...
    def outcomes(self, seed: Any, problems: Sequence[Any]) -> Sequence[Sequence[float]]: ...
    def rate(self, seed: Any, problems: Sequence[Any]) -> float: ...


class Comparison(Record):
    """Paired comparisons with the first side, and what belongs beside them. `print` it, or take its `markdown()`."""

    problems: int
    """Problems that every result graded."""
    sides: list[SideResult]
    pairs: list[PairedTest]
    notes: list[str] = []
    """Differences in settings, problems left out, directions chosen on the evaluated problems."""

    def __str__(self) -> str:
        parts = [plural(self.problems, "problem"), table(*_side_rows(self)), *self._sentences()]
        return "\n\n".join([*parts, *(["\n".join(self.notes)] if self.notes else [])])

    def _repr_html_(self) -> str:
        texts = [*self._sentences(), *self.notes]
        table = html_table(*_side_rows(self))
        return f"<p>{plural(self.problems, 'problem')}</p>{table}" + "".join(f"<p>{html_lines(t)}</p>" for t in texts)

    def markdown(self) -> str:
        """The same as Markdown."""
        parts = [f"{plural(self.problems, 'problem')}.", markdown_table(*_side_rows(self)), pair_table(self)]
        lines = [line for text in self._sentences() for line in text.splitlines()]
        parts += ["\n".join(f"- {escape_markdown(line)}" for line in group) for group in (lines, self.notes) if group]
        return "\n\n".join(parts)

    def _sentences(self) -> list[str]:
        return [sentences(pair, self.plain) for pair in self.pairs]

    @property
    def plain(self) -> bool:
        """Whether scores are plain numbers, such as rewards, and not shares to be read as percentages."""
        return any(not 0 <= value <= 1 for side in self.sides for value in side.values.values())


def compare(*results: Results | EvalResult | RunDir | str | Path) -> Comparison:
    """Compare the first result with each of the others by paired tests.

    A result is what `evaluate` returned (its headline counts), a file that it wrote, or a run: what its arm deploys, on
    held-out problems.
    """
    return compare_results([_read(result) for result in results])


def _read(given: Results | EvalResult | RunDir | str | Path) -> EvalResult:
    if isinstance(given, EvalResult):
        return given
    if isinstance(given, Results):
        return given.headline
    path = given.path if isinstance(given, RunDir) else Path(given)
    return read_result(_of_run(path) if path.is_dir() else path)


def _of_run(path: Path) -> Path:
    """The result that stands for a run."""
    if not (path / "config.yaml").is_file():
        results = sorted(str(file) for file in path.rglob("*.json"))[:3]
        fix = f"name a result in it, such as {', '.join(results) or 'NAME.json'}"
        raise RunDirError(f"{path} is not a run", fix=fix)
    result = path / "evals" / "held_out" / f"{headline(RunDir.open(path).config.rules())}.json"
    if not result.is_file():
        raise RunDirError(f"{path} has no {result.relative_to(path)}", fix=f"evaluate it first: agon eval {path}")
    return result


def compare_results(results: Sequence[EvalResult]) -> Comparison:
    """The first side with each of the others, on the problems that all of them answered."""
    sides = grouped(results)
    if len(sides) < 2:
        message = "the results are seeds of one arm and system" if len(results) > 1 else "there is one result"
        raise InputError(f"{message}: nothing to compare with", fix=SECOND)
    problems, notes = common(results)
    pairs = corrected([paired_test(sides[0], other, problems, len(sides) - 1) for other in sides[1:]])
    described = [describe(side, problems) for side in sides]
    notes += [*differing(results), *post_hoc(results), *unequal_prices(described)]
    return Comparison(problems=len(problems), sides=described, pairs=pairs, notes=notes)


def corrected(pairs: Sequence[PairedTest]) -> list[PairedTest]:
    """The tests of one family, with Holm's correction."""
    adjusted = intervals.holm([1.0 if pair.p is None else pair.p for pair in pairs])
    return [
        pair.model_copy(update={"p_holm": None if pair.p is None else p})
        for pair, p in zip(pairs, adjusted, strict=True)
    ]


def grouped(results: Sequence[EvalResult]) -> list[Side]:
    """Results of one arm, system and base with different seeds are one side; others stand alone, by the run's name."""
    groups: dict[tuple[str, str, str], list[EvalResult]] = defaultdict(list)
    for result in results:
        name = show_hidden(result.run.arm or result.run.name)
        groups[name, show_hidden(result.system), show_hidden(result.settings.base)].append(result)
    sides = []
    for (name, system, _), group in groups.items():
        if len({result.run.seed for result in group}) == len(group):
            sides.append(Side(f"{name} {system}", {result.run.seed: result for result in group}))
        else:
            sides += [Side(f"{show_hidden(result.run.name)} {system}", {result.run.seed: result}) for result in group]
    labels = [side.label for side in sides]
    return [
        Side(f"{side.label} ({_apart(side)})" if labels.count(side.label) > 1 else side.label, side.results)
        for side in sides
    ]


def _apart(side: Side) -> str:
    """What tells two sides of one label apart."""
    first = next(iter(side.results.values()))
    return show_hidden(first.settings.base if first.run.arm else first.data.name)


def common(results: Sequence[EvalResult]) -> tuple[list[str], list[str]]:
    """The problems that every result graded, in the order of the first, and what was left out."""
    graded = [graded_only(result.measured.outcomes).keys() for result in results]
    shared = set.intersection(*map(set, graded))
    if not shared:
        raise InputError("the results have no problem in common", fix="compare results on the same data")
    left = max(len(names - shared) for names in graded)
    note = f"restricted to the {len(shared)} problems in common: up to {left} of a result are left out"
    return [name for name in graded[0] if name in shared], [note] if left else []


def differing(results: Sequence[EvalResult]) -> list[str]:
    """Settings that are not the same everywhere."""
    notes = []
    for key in SAME:
        values = {str(getattr(result.settings, key)) for result in results}
        if len(values) > 1:
            notes.append(f"warning: {key} differs ({show_hidden(', '.join(sorted(values)))})")
    return notes


def post_hoc(results: Sequence[EvalResult]) -> list[str]:
    """What a direction chosen on the evaluated problems is worth by itself."""
    return [
        f"{show_hidden(f'{result.run.name} {result.system}')}: its direction was chosen on these problems, worth about "
        f"{100 * result.direction.optimism:.1f} points by itself"
        for result in results
        if result.direction and result.direction.optimism is not None
    ]


def unequal_prices(sides: Sequence[SideResult]) -> list[str]:
    """What the answers of some sides cost more than those of the first."""
    first, words = sides[0], {1: "one pass", 2: "two passes"}
    return [
        f"not at equal cost: {side.label} answers in {words[side.passes]} and {count(side.tokens)} tokens, "
        f"{first.label} in {words[first.passes]} and {count(first.tokens)}"
        for side in sides[1:]
        if side.passes != first.passes
    ]


def describe(side: Side, problems: Sequence[str]) -> SideResult:
    """A side's rate: with one run, the interval over problems; with several seeds, each value and the t interval."""
    values = {str(seed): side.rate(seed, problems) for seed in side.results}
    if len(values) == 1:
        (seed,) = side.results
        over, rate = "problems", intervals.pass_rate(side.outcomes(seed, problems))
        assert rate is not None
    else:
        over, rate = "seeds", intervals.t_interval(list(values.values()), floor=0, ceiling=1)
    measured = [result.measured for result in side.results.values()]
    passes, tokens = passes_of(measured[0]), fmean(map(tokens_of, measured))
    return SideResult(label=side.label, values=values, pass_rate=rate, over=over, passes=passes, tokens=tokens)


def paired_test(first: PairedSide, second: PairedSide, problems: Sequence[Any], tests: int = 1) -> PairedTest:
    """second - first, by whatever the two have in common; what could be found is said for one of so many tests."""
    seeds = [seed for seed in first.results if seed in second.results]
    if len(seeds) >= 2:
        return _by_seed(first, second, seeds, problems, tests)
    one, two = (next(iter(side.results)) for side in (first, second))
    if len(first.results) == len(second.results) == 1:
        return _by_problem(first, second, one, two, problems, tests)
    one, two = (seeds[0], seeds[0]) if seeds else (one, two)
    sides = " with ".join("a result without a seed" if seed is None else f"seed {seed}" for seed in (one, two))
    note = f"fewer than two seeds in common: compares {sides} alone"
    return _by_problem(first, second, one, two, problems, tests).model_copy(update={"note": note})


def _level(tests: int) -> float:
    """The level at which one of several tests finds a difference, by Bonferroni: Holm's first step."""
    return 1 - ALPHA / tests


def _by_seed(
    first: PairedSide, second: PairedSide, seeds: Sequence[Any], problems: Sequence[Any], tests: int
) -> PairedTest:
    differences = {str(seed): second.rate(seed, problems) - first.rate(seed, problems) for seed in seeds}
    values = list(differences.values())
    return PairedTest(
        first=first.label,
        second=second.label,
        problems=len(problems),
        test="Student's t over seed-paired differences",
        differences=differences,
        difference=intervals.t_interval(values),
        bootstrap=intervals.bootstrap(values),
        descriptive=len(seeds) < intervals.FEW_SEEDS,
        p=intervals.t_test(values),
        detectable=_detectable(values, tests),
        needed=intervals.needed_by_t(fmean(values), stdev(values), _level(tests)),
    )


def _by_problem(
    first: PairedSide, second: PairedSide, one: Any, two: Any, problems: Sequence[Any], tests: int
) -> PairedTest:
    before, after = first.outcomes(one, problems), second.outcomes(two, problems)
    head: dict[str, Any] = {"first": first.label, "second": second.label, "problems": len(problems)}
    differences = intervals.differences(before, after)
    moved = (fmean(differences), stdev(differences)) if len(differences) > 1 else (0.0, 0.0)
    if all(len(samples) == 1 and samples[0] in (0, 1) for samples in (*before, *after)):
        paired = intervals.paired([bool(samples[0]) for samples in before], [bool(samples[0]) for samples in after])
        disagree = (paired.only_first + paired.only_second) / paired.n
        return PairedTest(
            **head,
            test="exact McNemar",
            only_first=paired.only_first,
            only_second=paired.only_second,
            difference=paired.difference,
            p=paired.p_value,
            detectable=_finite(intervals.detectable(paired.n, disagree, _level(tests))),
            needed=intervals.needed(*moved, _level(tests)),
        )
    never_differ = not any(differences)
    return PairedTest(
        **head,
        test="Student's t over per-problem differences",
        difference=intervals.paired_clustered(before, after)
        if all(0 <= value <= 1 for samples in (*before, *after) for value in samples)
        else intervals.t_interval(differences),
        p=intervals.t_test(differences),
        detectable=_finite(intervals.detectable(len(problems), 0.0, _level(tests)))
        if never_differ
        else _detectable(differences, tests),
        needed=intervals.needed_by_t(*moved, _level(tests)),
    )


def _detectable(differences: Sequence[float], tests: int) -> float | None:
    """The smallest effect that would be found; None where nothing varies."""
    if len(differences) < 2 or intervals.agree(differences):
        return None
    return _finite(intervals.detectable_across_seeds(stdev(differences), len(differences), _level(tests)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# -- in words ---------------------------------------------------------------------------------------------------------


def _side_rows(comparison: Comparison) -> tuple[Sequence[str], list[Sequence[str]]]:
    rows: list[Sequence[str]] = []
    for side in comparison.sides:
        seeds = "  ".join(_plain(value) if comparison.plain else f"{100 * value:.1f}" for value in side.values.values())
        price = (str(side.passes), count(side.tokens))
        rate = _plain_interval(side.pass_rate, "") if comparison.plain else interval(side.pass_rate)
        rows.append((side.label, rate, side.over, seeds, *price))
    what = "mean score" if comparison.plain else "pass@1"
    return ("", f"{what}, 95% interval", "over", "each seed", "passes", "tokens per answer"), rows


def pair_table(comparison: Comparison) -> str:
    """Every test as a Markdown table."""
    head = (f"against {comparison.sides[0].label}", "difference, 95% interval", "test", "p", "p (Holm)")
    rows = [
        (
            pair.second,
            _moved(pair.difference, comparison.plain),
            pair.test,
            probability(pair.p),
            probability(pair.p_holm),
        )
        for pair in comparison.pairs
    ]
    return markdown_table(head, rows)


def _plain(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3g}"


def _plain_interval(found: Interval, sign: str) -> str:
    limits = "" if found.low is None or found.high is None else f" [{found.low:{sign}.3g}, {found.high:{sign}.3g}]"
    return f"{_plain(found.value, sign)}{limits}"


def _moved(difference: Interval | None, plain: bool) -> str:
    """A difference in points, or of scores that are plain numbers."""
    return _plain_interval(difference, "+") if plain and difference else points(difference)


def sentences(pair: PairedTest, plain: bool = False) -> str:
    """What one comparison says, and what it cannot say."""
    lines = [
        f"{pair.second} against {pair.first}: {_moved(pair.difference, plain)}",
        _evidence(pair, plain),
        _verdict(pair, plain),
        _conflict(pair),
    ]
    if pair.differences is None:
        lines.append("This holds for these problems and these runs; what a different seed would change is not known.")
    if pair.note:
        lines.append(f"Warning: {pair.note}.")
    return "\n".join(line for line in lines if line)


def _evidence(pair: PairedTest, plain: bool) -> str:
    holm = "" if pair.p_holm == pair.p else f", {probability(pair.p_holm)} after Holm"
    p = f"{pair.test[0].upper()}{pair.test[1:]}: p = {probability(pair.p)}{holm}."
    if pair.only_first is not None:
        lost = f"misses {pair.only_first} that {pair.first} solves"
        return f"It solves {pair.only_second} that {pair.first} does not, and {lost}. {p}"
    if pair.differences is None:
        return p
    by_seed = ", ".join(_plain(value, "+") if plain else f"{100 * value:+.1f}" for value in pair.differences.values())
    label = "Bootstrap over seeds (descriptive: too few seeds)" if pair.descriptive else "Bootstrap over seeds"
    return f"By seed: {by_seed}. {p}\n{label}: {_moved(pair.bootstrap, plain)}."


def _conflict(pair: PairedTest) -> str:
    """Why interval and test differ, where they do, or that there are too few problems for either."""
    low, high = pair.difference.low, pair.difference.high
    excludes = low is not None and high is not None and (low > 0 or high < 0)
    if pair.only_first is not None and pair.only_second is not None and not pair.decided:
        differing = pair.only_first + pair.only_second
        if differing < FEWEST and (excludes or pair.problems < FEWEST):
            few = f"Too few problems for either: the sides differ on {differing}, the test needs {FEWEST} to reach 0.05"
            return f"{few}, and the interval is approximate for so few. Evaluate more problems."
    if excludes == pair.decided:
        return ""
    if pair.p is not None and pair.p < ALPHA and not pair.decided:
        return "The interval is of this comparison alone; the test is corrected for all of them, and decides."
    if pair.only_first is None:
        return (
            "Interval and test differ because all differences are equal: the interval bounds how often one more would "
            "differ, the test counts signs. The test decides."
        )
    return "Interval and test differ near the limit: the test is exact, the interval approximate. The test decides."


def _verdict(pair: PairedTest, plain: bool) -> str:
    better = pair.second if pair.difference.value > 0 else pair.first
    if pair.decided:
        return f"{better} is better: the difference is larger than chance explains."
    if pair.detectable is None:
        return "No difference is shown."
    units = "problems" if pair.differences is None else "seeds"
    least = _plain(pair.detectable) if plain else f"{100 * pair.detectable:.1f} points"
    missed = f"with so few {units}, even 100 points" if pair.detectable > 1 and not plain else f"one below {least}"
    said = f"No difference is shown; {missed} would be missed more often than one time in five."
    if pair.needed is None:
        return said
    return f"{said} To show one of this size would take about {count(pair.needed)} {units}."
