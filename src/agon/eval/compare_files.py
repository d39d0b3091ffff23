"""Files of per-problem results that others wrote, compared as our own are: lm-eval, inspect, verifiers, CSV, JSONL.

A side is one file, or the files of several seeds: `base=a1.csv,a2.csv`. Its seeds are those that a column `seed` names,
else the files in their order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from agon.errors import InputError
from agon.eval import intervals
from agon.eval.compare import SECOND_FILE, Comparison, corrected, paired_test
from agon.formatting import count, plural, show_hidden
from agon.rundir.results import SideResult
from agon_lens.errors import LensError
from agon_lens.results import Scores, read_scores, samples_per_problem

UNEQUAL = 1.1
"""Ratio of tokens per answer from which on budgets differ."""
CUT = 0.05
"""Difference of truncated shares that is reported."""


@dataclass(frozen=True, slots=True)
class FileSide:
    """The scores of one side, by seed."""

    label: str
    results: Mapping[int | str | None, Mapping[Hashable, list[float]]]
    files: tuple[Scores, ...]

    def outcomes(self, seed: int | str | None, problems: Sequence[Hashable]) -> list[list[float]]:
        return [self.results[seed][problem] for problem in problems]

    def rate(self, seed: int | str | None, problems: Sequence[Hashable]) -> float:
        return fmean(fmean(samples) for samples in self.outcomes(seed, problems))

    @property
    def tokens(self) -> float | None:
        known = [file.tokens for file in self.files if file.tokens is not None]
        return fmean(known) if known else None


def compare_files(
    sides: Sequence[str | Path], metric: str | None = None, where: Mapping[str, str] | None = None
) -> Comparison:
    """The first side with each of the others, on the problems that all of them scored."""
    read = [_side(str(side), metric, where) for side in sides]
    if len(read) < 2:
        raise InputError("there is one side: nothing to compare with", fix=SECOND_FILE)
    labels = [side.label for side in read]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        fix = f"name the sides: old={sides[0]} new={sides[1]}"
        raise InputError(f"two sides are called {show_hidden(twice)}", fix=fix)
    every = [set(problems) for side in read for problems in side.results.values()]
    shared = set.intersection(*every)
    sizes = ", ".join(f"{side.label} has {count(len(set().union(*side.results.values())))}" for side in read)
    if not shared:
        fix = "compare results on the same problems; their ids must be equal"
        raise InputError(f"the results have no problem in common ({sizes})", fix=fix)
    problems = [problem for problem in next(iter(read[0].results.values())) if problem in shared]
    notes = list[str]()
    if any(one - shared for one in every):
        notes.append(f"warning: restricted to the {plural(len(shared), 'problem')} in common ({sizes})")
    notes += _ungraded(read) + _budgets(read)
    pairs = corrected([paired_test(read[0], other, problems, len(read) - 1) for other in read[1:]])
    return Comparison(
        problems=len(problems), sides=[_describe(side, problems) for side in read], pairs=pairs, notes=notes
    )


def _side(given: str, metric: str | None, where: Mapping[str, str] | None) -> FileSide:
    """`FILE`, `NAME=FILE` or `NAME=FILE,FILE`."""
    name, equals, rest = given.partition("=")
    if Path(given).exists() or not equals:
        name, rest = "", given
    paths = [Path(rest)] if Path(rest).exists() else [Path(part) for part in rest.split(",") if part]
    try:
        files = [read_scores(path, metric, where) for path in paths]
    except LensError as error:
        raise InputError(error.message, fix=error.fix) from error
    results: dict[int | str | None, Mapping[Hashable, list[float]]] = {}
    for number, file in enumerate(files):
        for seed, scores in file.by_seed.items():
            key = seed if seed is not None else (number if len(files) > 1 else None)
            if key in results:
                fix = "give each file of a side a seed of its own"
                raise InputError(f"two files of {show_hidden(name or given)} have the seed {key}", fix=fix)
            results[key] = scores
    return FileSide(show_hidden(name or files[0].name), results, tuple(files))


def _describe(side: FileSide, problems: Sequence[Hashable]) -> SideResult:
    values = {str(seed): side.rate(seed, problems) for seed in side.results}
    if len(values) > 1:
        over, rate = "seeds", intervals.t_interval(list(values.values()))
    else:
        (seed,) = side.results
        over, samples = "problems", side.outcomes(seed, problems)
        if all(value in (0, 1) for each in samples for value in each):
            found = intervals.pass_rate([[bool(value) for value in each] for each in samples])
            assert found is not None
            rate = found
        else:
            rate = intervals.t_interval([fmean(each) for each in samples])
    return SideResult(label=side.label, values=values, pass_rate=rate, over=over, tokens=side.tokens)


def _ungraded(sides: Sequence[FileSide]) -> list[str]:
    lost = {side.label: sum(file.ungraded for file in side.files) for side in sides}
    return [f"{label}: {number} answers without a score are left out" for label, number in lost.items() if number]


def _budgets(sides: Sequence[FileSide]) -> list[str]:
    """Warnings where answers were not bought at the same price."""
    first, notes = sides[0], list[str]()
    for side in sides[1:]:
        names = f"{first.label} and {side.label}"
        if first.tokens and side.tokens and not 1 / UNEQUAL <= side.tokens / first.tokens <= UNEQUAL:
            one, two = count(first.tokens), count(side.tokens)
            notes.append(f"warning: budgets differ: {names} generated {one} and {two} tokens per answer")
        limits = [{file.limit for file in each.files if file.limit is not None} for each in (first, side)]
        if all(limits) and limits[0] != limits[1]:
            said = " and ".join(", ".join(count(limit) for limit in sorted(each)) for each in limits)
            notes.append(f"warning: budgets differ: the limits of {names} are {said} tokens")
        one_size, two_size = (samples_per_problem(next(iter(each.results.values()))) for each in (first, side))
        if one_size != two_size:
            notes.append(f"warning: {names} have {one_size} and {two_size} samples per problem")
        shares = [[file.truncated for file in each.files if file.truncated is not None] for each in (first, side)]
        if all(shares) and abs(fmean(shares[0]) - fmean(shares[1])) > CUT:
            said = " and ".join(f"{fmean(each):.0%}" for each in shares)
            notes.append(f"warning: {said} of the answers of {names} were truncated")
    return notes
