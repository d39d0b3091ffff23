"""Statistics against known values and their own definitions; coverage is measured by evidence/stat_coverage.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from agon.eval import intervals as s

outcomes = st.lists(st.booleans(), min_size=2, max_size=60)


def test_clopper_pearson_of_the_papers_headline() -> None:
    got = s.clopper_pearson(183, 300)
    assert (round(got.low, 3), round(got.high, 3)) == (0.552, 0.666)


@given(st.integers(0, 300))
def test_the_exact_interval_holds_the_score_interval_in_the_middle(k) -> None:
    exact, score = s.clopper_pearson(k, 300), s.wilson(k, 300)
    assert exact.low <= exact.value <= exact.high
    if 10 <= k <= 290:
        assert exact.high - exact.low > score.high - score.low


def test_mcnemar_is_the_sign_test_on_disagreements() -> None:
    assert s.mcnemar(3, 9) == pytest.approx(2 * scipy_stats.binom.cdf(3, 12, 0.5))
    assert s.mcnemar(0, 0) == 1.0
    assert s.mcnemar(5, 5) == 1.0


@settings(max_examples=30, deadline=None)
@given(outcomes, st.data())
def test_swapping_the_systems_flips_the_difference_and_keeps_the_p_value(first, data) -> None:
    second = data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))
    one, other = s.paired(first, second), s.paired(second, first)
    assert one.difference.value == pytest.approx(-other.difference.value)
    assert one.p_value == other.p_value
    assert (one.only_first, one.only_second) == (other.only_second, other.only_first)
    assert one.difference.low == pytest.approx(-other.difference.high, abs=1e-9)
    assert -1 <= one.difference.low <= one.difference.value <= one.difference.high <= 1


@pytest.mark.parametrize("n", [4, 12, 40, 300])
def test_systems_that_never_disagree_may_still_differ(n: int) -> None:
    z = scipy_stats.norm.ppf(0.975)
    found = s.paired([False] * n, [False] * n).difference
    assert (found.low, found.high) == pytest.approx((-z * z / (n + z * z), z * z / (n + z * z)))


def test_the_interval_of_a_paired_difference_covers_with_few_problems() -> None:
    """Without simulation: every table of 12 problems, weighed by its chance."""
    n = 12
    limits = {(b, c): s.tango(c, b, n) for b in range(n + 1) for c in range(n + 1 - b)}
    for better, worse in [(0.01, 0.01), (0.05, 0.0), (0.1, 0.05), (0.2, 0.2), (0.4, 0.1), (0.7, 0.1)]:
        chances = [better, worse, 1 - better - worse]
        coverage = sum(
            scipy_stats.multinomial.pmf([b, c, n - b - c], n, chances)
            for (b, c), found in limits.items()
            if found.low - 1e-9 <= better - worse <= found.high + 1e-9
        )
        assert coverage > 0.93, (better, worse)


def test_samples_of_one_problem_are_not_independent() -> None:
    """Ten problems, each all right or all wrong in 30 samples: 300 outcomes, but ten units."""
    outcomes = [[i % 2 == 0] * 30 for i in range(10)]
    clustered, naive = s.clustered(outcomes), s.wilson(150, 300)
    assert clustered.high - clustered.low > 4 * (naive.high - naive.low)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values) -> None:
    adjusted = s.holm(p_values)
    assert all(a >= p or math.isclose(a, p) for a, p in zip(adjusted, p_values, strict=True))
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)
    assert max(adjusted) <= 1.0


def test_one_seed_decides_nothing() -> None:
    got = s.t_interval([0.61])
    assert (got.low, got.high) == (None, None)


def test_the_detectable_effect_is_found_with_the_stated_power() -> None:
    rng = __import__("numpy").random.default_rng(0)
    n, disagree = 300, 0.3
    effect = s.detectable(n, disagree)
    assert 0.08 < effect < 0.10
    found = 0
    for _ in range(400):
        moved = rng.multinomial(n, [(disagree + effect) / 2, (disagree - effect) / 2, 1 - disagree])
        found += s.mcnemar(int(moved[1]), int(moved[0])) < 0.05
    assert 0.70 < found / 400 < 0.88, "McNemar is a little conservative; the formula is for the normal test"


def test_a_difference_that_gives_the_test_too_few_disagreements_is_not_found() -> None:
    """Twelve problems, six of which must differ: only a difference on 57 of 100 problems makes that likely."""
    effect = s.detectable(12, disagree=0.0)
    assert scipy_stats.binom.sf(5, 12, effect) == pytest.approx(0.8)
    assert s.detectable(5, disagree=0.2) == math.inf


def test_seeds_needed_for_an_effect() -> None:
    assert s.detectable_across_seeds(0.03, 5) == pytest.approx(0.0502, abs=0.002)
    assert s.detectable_across_seeds(0.03, 20) < s.detectable_across_seeds(0.03, 5)
    assert s.detectable_across_seeds(0.03, 1) == math.inf


@pytest.mark.parametrize(("seeds", "level"), [(2, 0.95), (2, 0.9875), (3, 0.999), (10, 0.9875)])
def test_students_test_finds_the_detectable_difference_four_times_in_five(seeds: int, level: float) -> None:
    """Two seeds and several comparisons too, where the difference is many standard deviations."""
    effect = s.detectable_across_seeds(1.0, seeds, level)
    drawn = np.random.default_rng(0).normal(effect, 1.0, (100_000, seeds))
    found = scipy_stats.ttest_1samp(drawn, 0.0, axis=1)
    assert np.mean((found.pvalue < 1 - level) & (found.statistic > 0)) == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize(("effect", "sd"), [(0.05, 0.03), (0.02, 0.03), (0.1, 0.3)])
def test_students_test_finds_a_difference_with_the_units_needed_and_not_with_fewer(effect: float, sd: float) -> None:
    n = s.needed_by_t(effect, sd)
    assert n is not None
    drawn = __import__("numpy").random.default_rng(0).normal(effect, sd, (20_000, n))
    found, fewer = ((scipy_stats.ttest_1samp(sets, 0, axis=1).pvalue < 0.05).mean() for sets in (drawn, drawn[:, :-1]))
    assert fewer < 0.81
    assert found > 0.79
    assert s.needed_by_t(0.0, sd) is None
    assert s.t_test([effect] * (s.needed_by_t(effect, 0.0) or 0)) < 0.05


def test_choosing_the_direction_afterwards_is_worth_something_when_both_are_equal() -> None:
    rng = __import__("numpy").random.default_rng(1)
    p = rng.random(300)
    first, second = (rng.random(300) < p).tolist(), (rng.random(300) < p).tolist()
    assert 0.005 < s.optimism(first, second) < 0.03, "the paper's choice is worth about 1.6 points at 300 problems"


def test_no_optimism_where_one_direction_is_clearly_better() -> None:
    first, second = [True] * 280 + [False] * 20, [False] * 280 + [True] * 20
    assert s.optimism(first, second) == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (5, 0.0625), (12, 2**-11)])
def test_units_that_agree_exactly_are_no_proof(n: int, p: float) -> None:
    values = [-0.025 + 1e-17 * i for i in range(n)]
    found = s.t_interval(values)
    assert s.t_test(values) == pytest.approx(p)
    assert s.t_test([0.0] * n) == 1.0
    assert found.high - found.value == pytest.approx(s.clopper_pearson(0, n).high)
