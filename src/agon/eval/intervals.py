"""Intervals and tests for pass rates: exact where they can be, paired where they should be, and honest about seeds.

Every function takes counts or per-problem outcomes and returns plain numbers. What the paper reports (one run, one
sample per problem, Clopper-Pearson over problems) is `clopper_pearson`; everything else here is what it leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agon.errors import InputError, install
from agon.rundir.results import Interval

try:
    import numpy as np
    from scipy import optimize, stats
except ImportError as error:
    raise InputError("scipy is not installed", fix=install("eval")) from error

LEVEL = 0.95
DRAWS = 4000
EXACT = 1e-12
NORMAL = 1000
"""From this many units on, Student's test needs as many as a normal one."""
FEW_SEEDS = 10
"""Below this many seeds a bootstrap over seeds is only descriptive: its intervals are too short."""


# -- one system -------------------------------------------------------------------------------------------------------


def clopper_pearson(correct: int, n: int, level: float = LEVEL) -> Interval:
    """Exact binomial interval: covers at least `level`, whatever the rate."""
    low, high = stats.binomtest(correct, n).proportion_ci(level, method="exact")
    return Interval(correct / n, float(low), float(high))


def wilson(correct: int, n: int, level: float = LEVEL) -> Interval:
    """Score interval: shorter than the exact one, close to `level` on average."""
    low, high = stats.binomtest(correct, n).proportion_ci(level, method="wilson")
    return Interval(correct / n, float(low), float(high))


def clustered(outcomes: Sequence[Sequence[bool]], level: float = LEVEL) -> Interval:
    """avg@k over problems with k samples each: problems are the units, samples of one problem are not independent."""
    means = np.array([np.mean(samples) for samples in outcomes], dtype=float)
    return t_interval(means.tolist(), level, floor=0.0, ceiling=1.0)


def rate(outcomes: Sequence[Sequence[bool]], level: float = LEVEL) -> Interval | None:
    """The share of true outcomes over problems that may hold different numbers of them; None where there are none.

    One outcome per problem: exact. More: a ratio whose units are the problems (linearised, Student's interval), and the
    exact interval over problems where all outcomes are alike.
    """
    held = [(sum(each), len(each)) for each in outcomes if len(each)]
    if not held:
        return None
    hits, sizes = (np.array(column, dtype=float) for column in zip(*held, strict=True))
    value = float(hits.sum() / sizes.sum())
    spread = hits - value * sizes
    if sizes.max() == 1 or value in (0.0, 1.0):
        return clopper_pearson(round(value * len(held)), len(held), level)
    if float(np.abs(spread).max()) < EXACT:  # the same share in every problem: what t_interval says of equal units
        return t_interval([value] * len(held), level, floor=0.0, ceiling=1.0)
    error = math.sqrt(len(held) / (len(held) - 1) * float((spread**2).sum())) / float(sizes.sum())
    half = float(stats.t.ppf((1 + level) / 2, len(held) - 1)) * error
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def pass_rate(outcomes: Sequence[Sequence[bool]], level: float = LEVEL) -> Interval | None:
    """The mean over problems of their samples' mean, which is what differences are made of; None without outcomes.

    A problem counts once, however many of its samples were graded.
    """
    held = [each for each in outcomes if len(each)]
    return rate(held, level) if len(set(map(len, held))) <= 1 else clustered(held, level)


def t_interval(
    values: Sequence[float], level: float = LEVEL, floor: float = -math.inf, ceiling: float = math.inf
) -> Interval:
    """Mean and Student's interval: what decides across seeds.

    Units that agree exactly have no spread to reckon with: how often one more would differ, by up to 1, is then bounded
    as 0 of n.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, *(limit if math.isfinite(limit) else None for limit in (floor, ceiling)))
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    if agree(values):
        half = float(stats.binomtest(0, len(values)).proportion_ci(level, method="exact").high)
    return Interval(mean, max(floor, mean - half), min(ceiling, mean + half))


def agree(values: Sequence[float]) -> bool:
    """Whether all are the same number, but for rounding."""
    return float(np.ptp(values)) < EXACT


def bootstrap(values: Sequence[float], level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Mean and percentile bootstrap over the given units."""
    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), (draws, len(data)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(data.mean()), float(low), float(high))


# -- two systems on the same problems ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on the same problems: who solved what the other could not."""

    n: int
    only_first: int
    only_second: int
    p_value: float
    difference: Interval


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test: only problems on which the systems disagree say anything."""
    disagree = only_first + only_second
    return 1.0 if disagree == 0 else float(stats.binomtest(only_first, disagree, 0.5).pvalue)


def tango(only_first: int, only_second: int, n: int, level: float = LEVEL) -> Interval:
    """Score interval of a paired difference (Tango 1998): the differences that a score test on these counts keeps.

    It covers with few problems too, and has a width where the systems never disagree; a bootstrap then has none.
    """
    value, z = (only_second - only_first) / n, float(stats.norm.ppf((1 + level) / 2))

    def kept(difference: float) -> bool:
        a = 2 * n
        b = (a - only_second + only_first) * difference - only_second - only_first
        c = -only_first * difference * (1 - difference)
        chance = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # that only the first is right, if this is so
        variance = n * (2 * chance + difference * (1 - difference))
        return (only_second - only_first - n * difference) ** 2 <= z * z * variance

    def limit(outside: float) -> float:
        inside = value
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if kept(middle) else (inside, middle)
        return inside

    return Interval(value, limit(-1.0), limit(1.0))


def paired(first: Sequence[bool], second: Sequence[bool], level: float = LEVEL) -> Paired:
    """Exact McNemar test and score interval of the difference second - first, one outcome per problem."""
    if len(first) != len(second) or not first:
        raise ValueError("two equally long, non-empty lists of outcomes on the same problems are needed")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    p_value, difference = mcnemar(only_first, only_second), tango(only_first, only_second, len(first), level)
    return Paired(len(first), only_first, only_second, p_value, difference)


def paired_clustered(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], level: float = LEVEL
) -> Interval:
    """Difference of avg@k on the same problems: the per-problem differences are the units."""
    return t_interval(differences(first, second), level, -1.0, 1.0)


def differences(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[float]:
    """second - first in the mean of each problem's samples."""
    return [float(np.mean(b) - np.mean(a)) for a, b in zip(first, second, strict=True)]


def t_test(values: Sequence[float]) -> float | None:
    """Two-sided p-value of a mean of zero (Student; a sign test where nothing varies); None for fewer than two."""
    if len(values) < 2:
        return None
    if agree(values):
        return 1.0 if abs(values[0]) < EXACT else 0.5 ** (len(values) - 1)
    return float(stats.ttest_1samp(values, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p-values of a family, in the given order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = running
    return adjusted


# -- seeds, power, and the price of choosing afterwards ---------------------------------------------------------------


def detectable(n: int, disagree: float, level: float = LEVEL, power: float = 0.8) -> float:
    """Smallest paired difference found with `power` on n problems when the systems disagree on that share of them.

    McNemar's test needs some disagreements to reach its level, so no difference that makes fewer is found.
    """
    needed = math.ceil(1 - math.log2(1 - level))  # 2 x 0.5^needed <= 1 - level
    if n < needed:
        return math.inf
    z = stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power)
    # Var(difference) = disagree - d^2, so d solves d^2 (n + z^2) = z^2 disagree.
    return max(float(z * math.sqrt(disagree / (n + z * z))), float(stats.beta.ppf(power, needed, n - needed + 1)))


def needed(effect: float, sd: float, level: float = LEVEL, power: float = 0.8) -> int | None:
    """Problems with which McNemar's test finds a mean difference of this size with `power`, when single differences
    have this standard deviation; None for no difference."""
    if not effect:
        return None
    z = float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power))
    fewest = math.ceil(1 - math.log2(1 - level)) / min(1.0, abs(effect))  # as many must differ for any test to say so
    return math.ceil(max(fewest, (z * sd / effect) ** 2))


def detectable_across_seeds(sd: float, seeds: int, level: float = LEVEL, power: float = 0.8) -> float:
    """Smallest difference of seed-paired means found with `power` when paired differences have this standard
    deviation."""
    if seeds < 2:
        return math.inf
    df = seeds - 1
    critical = stats.t.ppf((1 + level) / 2, df)

    def missing(effect: float) -> float:
        # the wrong-sided tail is negligible at this power; far out the noncentral t is not to be had, and all is found
        found = float(stats.nct.sf(critical, df, effect * math.sqrt(seeds) / sd))
        return power - (1.0 if math.isnan(found) else found)

    # At the upper end the test finds enough: the mean is high enough, and the deviation small enough, with probability
    # `either` each, and they are independent: either^2 > power.
    either = (1 + power) / 2
    scale = critical * math.sqrt(stats.chi2.ppf(either, df) / df) + stats.norm.ppf(either)
    return float(optimize.brentq(missing, 0.0, scale * sd / math.sqrt(seeds))) if sd else 0.0


def needed_by_t(effect: float, sd: float, level: float = LEVEL, power: float = 0.8) -> int | None:
    """The same for Student's test, whose critical value grows as units become few; None for no difference."""
    if abs(effect) < EXACT:
        return None
    if sd < EXACT:
        return math.ceil(1 - math.log2(1 - level))  # then the signs are tested: see `t_test`
    z = float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power))
    units = max(2, math.ceil((z * sd / effect) ** 2))
    while units < NORMAL and detectable_across_seeds(sd, units, level, power) > abs(effect):
        units += 1
    return units


def optimism(first: Sequence[float], second: Sequence[float], draws: int = DRAWS, seed: int = 0) -> float:
    """What choosing the better direction on the evaluated set itself is worth: its bias, by the bootstrap.

    On each resample the better direction is chosen and its score compared with that same direction's score on the
    whole set.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(a), (draws, len(a)))
    resampled = np.stack([a[rows].mean(axis=1), b[rows].mean(axis=1)])
    chosen = resampled.argmax(axis=0)
    return float((resampled.max(axis=0) - np.array([a.mean(), b.mean()])[chosen]).mean())
