"""Equation 1 and its edges."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agon.game.advantage import EPSILON, advantages

known = st.lists(st.sampled_from([0.0, 0.5, 2.0, 2.5, 3.0, 3.5]), min_size=2, max_size=16)


@given(known)
def test_mean_zero_and_trl_scale(rewards) -> None:
    assume(len(set(rewards)) > 1)
    got = advantages(rewards)
    assert fmean(got) == pytest.approx(0, abs=1e-9)
    spread = stdev(rewards)
    assert stdev(got) == pytest.approx(spread / (spread + EPSILON))


def test_the_standard_deviation_is_the_sample_one() -> None:
    assert advantages([0.0, 2.0], epsilon=0) == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])


@given(st.sampled_from([0.0, 2.0, 2.5]), st.integers(1, 16))
def test_a_group_without_variance_is_dropped(value, n) -> None:
    assert advantages([value] * n) == [None] * n


@given(known, st.data())
def test_unknown_rows_are_masked_and_do_not_move_the_others(rewards, data) -> None:
    holes = data.draw(st.lists(st.booleans(), min_size=len(rewards), max_size=len(rewards)))
    pierced = [None if hole else reward for hole, reward in zip(holes, rewards, strict=True)]
    left = [reward for reward in pierced if reward is not None]
    got = advantages(pierced)
    assert [value for value, reward in zip(got, pierced, strict=True) if reward is None] == [None] * holes.count(True)
    assert [value for value, reward in zip(got, pierced, strict=True) if reward is not None] == advantages(left)


@given(known, st.permutations(range(16)))
def test_permuting_rewards_permutes_advantages(rewards, order) -> None:
    order = [k for k in order if k < len(rewards)]
    got = advantages(rewards)
    again = advantages([rewards[k] for k in order])
    for k, value in zip(order, again, strict=True):
        assert value == pytest.approx(got[k])


def test_one_known_row_carries_no_signal() -> None:
    assert advantages([None, 3.0, None]) == [None, None, None]
