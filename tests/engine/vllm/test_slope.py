"""The slope: 1 for the right weights and 0 for the wrong ones, whatever noise lies over both."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agon.engine.vllm.slope import CERTAIN, RESOLVED, ROWS, Slope, deviation, log_odds

EFFECT, ROUNDING = 0.008, 0.075
"""Of one step of the recipe on SmolLM2-135M, in log-odds: its root mean square, and the noise of either side."""
FACTOR = 30.0
"""How far the effect is measured, in steps."""


def drawn(where: float, seed: int, rows: int = 100, length: int = 100) -> Slope:
    """A slope from tokens as engine and learner would score them, with the engine at `where` between 0 and 1."""
    rng = np.random.default_rng(seed)
    count = rows * length

    def noise() -> np.ndarray:
        return ROUNDING * rng.standard_t(5, count) / math.sqrt(5 / 3)

    effect = EFFECT * rng.standard_t(4, count) / math.sqrt(2)
    engine, learner = (where - 1) * effect + noise(), noise()
    measured = effect + (noise() - noise()) / (2 * FACTOR)
    slope = Slope()
    slope.add(engine - learner, measured, np.repeat(np.arange(rows), length))
    return slope


def test_right_is_1_and_wrong_is_0_under_heavy_noise() -> None:
    for where in (0.0, 1.0):
        slopes = [drawn(where, seed) for seed in range(60)]
        mean = np.mean([slope.value for slope in slopes])
        assert mean == pytest.approx(where, abs=0.07), "the noise of the effect pulls it towards 1 a little"
        scores = [(slope.value - mean) / slope.error for slope in slopes]
        assert 0.75 < np.std(scores) < 1.3, "the standard error is the spread of the slopes"


def test_a_regression_on_the_unstretched_difference_cannot_tell_them_apart() -> None:
    """Why the effect is measured far out: with the noise of single scores on both sides, right and wrong read 1/2."""
    rng = np.random.default_rng(0)
    effect = EFFECT * rng.standard_normal(10_000)
    new, old = (ROUNDING * rng.standard_normal(10_000) for _ in range(2))
    for where in (0.0, 1.0):
        engine = (where - 1) * effect + ROUNDING * rng.standard_normal(10_000)
        change = effect + new - old
        naive = float((engine - (old - effect)) @ change / (change @ change))
        assert naive == pytest.approx(0.5, abs=0.05)


def test_ten_thousand_tokens_show_one_step_and_half_a_thousand_do_not() -> None:
    late = [drawn(0.0, seed) for seed in range(60)]
    assert sum(slope.wrong for slope in late) >= 57
    assert not any(drawn(1.0, seed).wrong for seed in range(200))
    few = [drawn(0.0, seed, rows=10, length=50) for seed in range(20)]
    assert not any(slope.resolved or slope.wrong for slope in few)


def test_sums_pool_until_they_resolve() -> None:
    pooled, steps = Slope(), 0
    while not pooled.resolved:
        step = drawn(0.0, seed=steps, rows=20)
        for sums, more in (
            (pooled.products, step.products),
            (pooled.squares, step.squares),
            (pooled.variances, step.variances),
        ):
            sums.extend(more)
        pooled.moved += step.moved
        steps += 1
    assert 2 < steps < 10
    assert pooled.wrong
    assert pooled.error <= RESOLVED


def test_far_older_weights_are_wrong_long_before_the_slope_is_resolved() -> None:
    slope = drawn(-9.0, seed=0, rows=10)
    assert not slope.resolved
    assert slope.wrong


def test_a_move_that_shows_as_steps_of_rounded_logits_counts_in_full() -> None:
    """Most differences are 0 or one step of 1/8: a clip at the usual size would cut the steps that carry the move."""
    rng, count = np.random.default_rng(0), 40_000
    exact, effect = rng.normal(0, 3.0, count), rng.normal(0, 0.02, count)

    def rounded(logits: np.ndarray) -> np.ndarray:
        return np.round(8 * (logits + rng.normal(0, 0.02, count))) / 8

    for where in (0.0, 1.0):
        slope = Slope()
        slope.add(rounded(exact + (where - 1) * effect) - rounded(exact), effect, np.repeat(np.arange(400), 100))
        assert slope.value == pytest.approx(where, abs=0.1)


def test_the_slope_is_measured_by_the_effect_nearby() -> None:
    rng = np.random.default_rng(0)
    effect, row = rng.normal(0, 0.1, 10_000), np.repeat(np.arange(100), 100)
    slope = Slope()
    slope.add(rng.normal(0, 0.1, 10_000) - 0.4 * effect, effect, row, 0.4 * effect + rng.normal(0, 0.1, 10_000))
    assert slope.value == pytest.approx(0.0, abs=0.1)
    assert slope.wrong


def test_a_few_wild_tokens_do_not_move_the_slope() -> None:
    rng = np.random.default_rng(0)
    effect, residual = rng.normal(0, EFFECT, 10_000), rng.normal(0, 0.1, 10_000)
    row = np.repeat(np.arange(100), 100)
    calm, wild = Slope(), Slope()
    calm.add(residual, effect, row)
    residual[:5], effect[:5] = -20.0, 0.2
    wild.add(residual, effect, row)
    assert wild.value == pytest.approx(calm.value, abs=0.2), "unclipped and uncapped, five tokens move it by ten"


def test_without_an_effect_or_with_few_rows_nothing_is_known() -> None:
    still, few = Slope(), Slope()
    residual = np.random.default_rng(0).normal(0, 0.1, 1000)
    still.add(residual, np.zeros(1000), np.repeat(np.arange(10), 100))
    few.add(residual, residual - 10.0, np.repeat(np.arange(ROWS - 1), 1000)[:1000])
    for slope in (still, few):
        assert slope.error == math.inf
        assert not slope.resolved
        assert not slope.wrong


def test_log_odds_are_finite_and_hold_certain_tokens() -> None:
    odds = log_odds(np.array([0.0, CERTAIN, -math.log(2), -50.0]))
    assert odds[0] == odds[1] == pytest.approx(math.log((1 - 1e-3) / 1e-3), rel=1e-3)
    assert odds[2] == pytest.approx(0.0)
    assert odds[3] == pytest.approx(-50.0)


def test_the_deviation_is_that_of_a_normal_distribution_without_its_outliers() -> None:
    values = np.random.default_rng(0).normal(0, 3.0, 10_000)
    values[:100] = 1e6
    assert deviation(values) == pytest.approx(3.0, rel=0.05)
