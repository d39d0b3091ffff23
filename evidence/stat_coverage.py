"""Do the intervals cover, and do the tests keep their size? Measured on simulated data sets, not assumed.

Clopper-Pearson and exact McNemar promise at least nominal behaviour, whatever the rate; the others promise to be
close to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as sm_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from _lib import arguments, verdict
from agon.eval import intervals as st
from agon.rundir.results import Interval

NOMINAL, LOW, HIGH = 0.95, 0.93, 0.97
FEW = 0.92
"""Coverage promised by the score interval of a paired difference with few problems, whatever the disagreements."""
SEED = 2026
RATES = (0.05, 0.23, 0.30, 0.46, 0.61, 0.90)
DISAGREEMENTS = [
    (share * (1 - part), share * part)
    for share in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
    for part in (0, 0.1, 0.25, 0.5)
]
"""Chances that only the second system is right, and only the first."""


def binomial(
    interval: Callable[[int, int], Interval], n: int, rate: float, sets: int, rng: np.random.Generator
) -> float:
    """Share of simulated counts whose interval holds the true rate."""
    holds = cache(lambda k: covers(interval(k, n), rate))
    return float(np.mean([holds(int(k)) for k in rng.binomial(n, rate, sets)]))


def exact_coverage(n: int, rate: float) -> float:
    """Clopper-Pearson's coverage without simulation: every count, weighed by its chance."""
    covered = [k for k in range(n + 1) if covers(st.clopper_pearson(k, n), rate)]
    return float(stats.binom.pmf(covered, n, rate).sum())


def paired_coverage(n: int) -> float:
    """The lowest coverage of the interval of a paired difference on n problems: every table, weighed by its chance."""
    tables = np.array([(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)])
    found = [st.tango(c, b, n) for b, c, _ in tables.tolist()]
    lows, highs = (np.array(column, dtype=float) for column in zip(*((x.low, x.high) for x in found), strict=True))

    def coverage(better: float, worse: float) -> float:
        held = (lows - 1e-9 <= better - worse) & (better - worse <= highs + 1e-9)  # limits stop just inside
        return float(stats.multinomial.pmf(tables[held], n, [better, worse, 1 - better - worse]).sum())

    return min(coverage(*chances) for chances in DISAGREEMENTS)


def problems(n: int, k: int, rng: np.random.Generator, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of k samples on n problems of very different difficulty, for two systems that share the difficulty."""
    difficulty = rng.normal(-0.3, 1.5, n)
    first = 1 / (1 + np.exp(-difficulty))
    second = 1 / (1 + np.exp(-(difficulty + shift + rng.normal(0, 0.5, n))))
    return rng.random((n, k)) < first[:, None], rng.random((n, k)) < second[:, None]


def truth(shift: float) -> tuple[float, float, float]:
    """Expected pass rates of the two systems, and of the second where the first is wrong, by numerical integration."""
    rng = np.random.default_rng(99)
    d, e = rng.normal(-0.3, 1.5, 2_000_000), rng.normal(0, 0.5, 2_000_000)
    first, second = 1 / (1 + np.exp(-d)), 1 / (1 + np.exp(-(d + shift + e)))
    return float(first.mean()), float(second.mean()), float(((1 - first) * second).mean() / (1 - first).mean())


def converted(first: np.ndarray, second: np.ndarray) -> Interval:
    """The rate of the second where the first is wrong: a different number of outcomes for every problem."""
    found = st.rate([after[~before].tolist() for before, after in zip(first, second, strict=True)])
    assert found is not None
    return found


def covers(interval: Interval, value: float) -> bool:
    return (interval.low is None or interval.low <= value) and (interval.high is None or value <= interval.high)


def simulate(sets: int) -> dict[str, tuple[float, str, bool]]:
    """Name -> (measured, promise, kept)."""
    rng = np.random.default_rng(SEED)
    rows: dict[str, tuple[float, str, bool]] = {}
    for rate in RATES:
        simulated = binomial(st.clopper_pearson, 300, rate, sets, rng)
        exact = exact_coverage(300, rate)
        agrees = abs(simulated - exact) < 4 * np.sqrt(exact * (1 - exact) / sets)
        rows[f"Clopper-Pearson, exact, n 300, rate {rate}"] = (
            exact,
            f">= {NOMINAL} (simulated {simulated:.4f})",
            agrees and exact >= NOMINAL,
        )
    wilson = [binomial(st.wilson, n, rate, sets, rng) for n in (300, 500) for rate in RATES]
    rows["Wilson, n 300 and 500, lowest of 12"] = band(min(wilson), sets)
    rows["Wilson, n 300 and 500, highest of 12"] = band(max(wilson), sets)
    first, second, conversion = truth(0.4)
    drawn = [problems(300, 4, rng, 0.4) for _ in range(sets)]
    singles = [(a[:, 0].tolist(), b[:, 0].tolist()) for a, b in drawn]
    covered = {
        "clustered avg@4, 300 problems": [covers(st.clustered(a), first) for a, _ in drawn],
        "conversions, uneven counts, 300 problems": [covers(converted(a, b), conversion) for a, b in drawn],
        "paired difference of avg@4, 300 problems": [
            covers(st.paired_clustered(a, b), second - first) for a, b in drawn
        ],
        "paired difference, 300 problems, one sample": [
            covers(st.paired(a, b).difference, second - first) for a, b in singles
        ],
        "t interval over 5 seeds": [covers(st.t_interval(x), 0.3) for x in rng.normal(0.3, 0.03, (sets, 5)).tolist()],
    }
    rows |= {name: band(float(np.mean(hits)), sets) for name, hits in covered.items()}
    for n in (12, 30, 100):
        lowest = paired_coverage(n)
        rows[f"paired difference, {n} problems, exact, lowest"] = (lowest, f">= {FEW}", lowest >= FEW)
    graded = [[(x.mean(axis=1) ** 2)[:, None] for x in pair] for pair in drawn]  # scores between 0 and 1
    expected = float(np.mean([b.mean() - a.mean() for a, b in graded]))
    hits = [covers(st.paired_clustered(a, b), expected) for a, b in graded]
    rows["paired difference of graded scores, 300 problems"] = band(float(np.mean(hits)), sets)
    rows |= sizes(sets, rng)
    return rows | powers() | students_power()


def powers() -> dict[str, tuple[float, str, bool]]:
    """How often a difference is found with as many problems as `needed` asks for: four times in five. Without
    simulation: every number of disagreements, weighed by its chance."""
    rows = {}
    for better, worse in ((0.15, 0.10), (0.30, 0.20), (0.10, 0.02)):
        effect, sd = better - worse, float(np.sqrt(better + worse - (better - worse) ** 2))
        n = st.needed(effect, sd)
        assert n is not None
        found, fewer = 0.0, -1  # at most so many on the smaller side are a difference; they grow with disagreements
        for disagreements in range(n + 1):
            while st.mcnemar(fewer + 1, disagreements - fewer - 1) < 0.05:
                fewer += 1
            tails = stats.binom(disagreements, better / (better + worse))
            rejected = tails.cdf(fewer) + tails.sf(disagreements - fewer - 1)
            found += float(stats.binom.pmf(disagreements, n, better + worse) * rejected)
        kept = 0.75 <= found <= 0.85
        rows[f"found with the problems needed, {better:.0%} against {worse:.0%}"] = (found, "0.75 to 0.85", kept)
    return rows


def students_power() -> dict[str, tuple[float, str, bool]]:
    """The same for Student's test, over few seeds and over problems: as many as asked for are enough, one fewer is
    not."""
    rng, rows = np.random.default_rng(SEED), {}
    for effect, sd in ((0.05, 0.03), (0.02, 0.03), (0.1, 0.3)):
        n = st.needed_by_t(effect, sd)
        assert n is not None
        drawn = rng.normal(effect, sd, (50_000, n))
        found, fewer = (
            float(np.mean(stats.ttest_1samp(sets, 0, axis=1).pvalue < 0.05)) for sets in (drawn, drawn[:, :-1])
        )
        name = f"found by Student's t with the {n} units needed, effect {effect:g}, sd {sd:g}"
        rows[name] = (found, f">= 0.795 (with one fewer {fewer:.3f})", found >= 0.795 and fewer <= 0.805)
    return rows


def sizes(sets: int, rng: np.random.Generator) -> dict[str, tuple[float, str, bool]]:
    """Rejections when there is nothing to find."""
    null = [problems(300, 1, rng) for _ in range(sets)]
    swapped = [(np.where(s, a, b), np.where(s, b, a)) for (a, b), s in ((x, rng.random((300, 1)) < 0.5) for x in null)]
    p_values = [st.paired(a[:, 0].tolist(), b[:, 0].tolist()).p_value for a, b in swapped]
    size = float(np.mean([p < 0.05 for p in p_values]))
    families = np.array(p_values[: len(p_values) // 4 * 4]).reshape(-1, 4)
    family = float(np.mean([min(st.holm(list(row))) < 0.05 for row in families]))
    slack = 3 * np.sqrt(0.05 * 0.95 / len(families))
    return {
        "exact McNemar, size at 5%": (size, "<= 0.05", size <= 0.05),
        "Holm over 4 tests, family-wise error": (family, "<= 0.05 within noise", family <= 0.05 + slack),
    }


def band(measured: float, sets: int) -> tuple[float, str, bool]:
    """Within the promised band; below 2,000 data sets the noise of the simulation itself is allowed for."""
    slack = 0.0 if sets >= 2000 else 3 * float(np.sqrt(NOMINAL * (1 - NOMINAL) / sets))
    return float(measured), f"{LOW} to {HIGH}", LOW - slack <= measured <= HIGH + slack


def agreement() -> float:
    """Largest difference to statsmodels over a grid of counts, tables and families."""
    gaps = [0.0]
    for k, n in [(0, 300), (69, 300), (138, 300), (183, 300), (300, 300), (7, 11)]:
        for mine, method in ((st.clopper_pearson, "beta"), (st.wilson, "wilson")):
            low, high = proportion_confint(k, n, method=method)
            gaps += [abs(mine(k, n).low - low), abs(mine(k, n).high - high)]
    for b, c in [(0, 0), (3, 9), (40, 22), (1, 30)]:
        table = [[10, b], [c, 10]]
        gaps.append(abs(st.mcnemar(b, c) - min(1.0, sm_mcnemar(table, exact=True).pvalue)) if b + c else 0.0)
    family = [0.001, 0.04, 0.03, 0.2]
    gaps += list(np.abs(np.array(st.holm(family)) - multipletests(family, method="holm")[1]))
    return float(max(gaps))


def main() -> None:
    args = arguments(__doc__)
    sets = 500 if args.quick else 2000
    rows = simulate(sets)
    for name, (measured, promise, kept) in rows.items():
        print(f"{'ok  ' if kept else 'FAIL'} {name:45} {measured:.4f}   {promise}")
    gap = agreement()
    print(f"largest difference to statsmodels: {gap:.2e}")
    verdict(
        "on simulated data intervals cover as promised and tests keep their size; values agree with statsmodels",
        value=sum(bool(kept) for _, _, kept in rows.values()),
        goal=len(rows),
        promises=f"Clopper-Pearson >= {NOMINAL}, McNemar <= 0.05, few problems >= {FEW}, others {LOW} to {HIGH}; "
        "power at the problems needed 0.75 to 0.85; "
        "statsmodels within 1e-9",
        measured={name: round(measured, 4) for name, (measured, _, _) in rows.items()},
        holds=all(kept for _, _, kept in rows.values()) and gap < 1e-9,
        data_sets=sets,
        seed=SEED,
        largest_difference=gap,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
