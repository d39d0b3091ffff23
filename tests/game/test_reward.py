"""Rewards as tables: the set {0, 2, 3} would also come out of an inverted bonus."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import reward
from agon.game.rules import Game
from agon.types import Completion, Policy, Problem, Prompt, Rollout
from tests.game.helpers import INFRA, verdict

R, W = verdict(True), verdict(False)
bits = st.booleans()


def rollout(judged, tokens: int = 10, index: int = 0) -> Rollout:
    completion = Completion("text", "a@000000-0", 5, tokens)
    return Rollout(Problem("x", "q", "a"), index, Policy.A, Prompt(()), completion, judged)


@pytest.mark.parametrize(
    ("mine", "rival", "coop", "adv", "margin"),
    [(W, W, 0, 0, 0), (W, R, 0, 0, -1), (R, R, 2, 2, 2), (R, W, 2, 3, 3)],
    ids=["wrong-wrong", "wrong-right", "right-right", "right-wrong"],
)
def test_the_ladder(mine, rival, coop, adv, margin) -> None:
    assert reward.coop(mine, rival, 0.0).total == coop
    assert reward.adv(mine, rival, 0.0).total == adv
    assert reward.margin(mine, rival, 0.0).total == margin
    assert reward.solo(mine, 0.0).total == coop


@pytest.mark.parametrize("stack", list(reward.STACKS))
def test_further_terms_are_ones_own_and_added_to_every_stack(stack) -> None:
    mine, rival = replace(R, extra=0.25), replace(W, extra=8.0)
    assert reward.STACKS[stack](mine, rival, 0.5).total == reward.STACKS[stack](R, W, 0.5).total + 0.25
    assert reward.solo(mine, 0.5).total == reward.solo(R, 0.5).total + 0.25


@pytest.mark.parametrize("stack", list(reward.STACKS))
@given(mine=bits, rival=bits, formed=bits, weight=st.floats(0, 10))
def test_the_format_term_is_identical_across_stacks(stack, mine, rival, formed, weight) -> None:
    with_format = reward.STACKS[stack](verdict(mine, formed), verdict(rival), weight)
    assert with_format.format == (weight if formed else 0.0)
    without = reward.STACKS[stack](verdict(mine, False), verdict(rival), weight)
    assert with_format.total == pytest.approx(without.total + with_format.format)


@pytest.mark.parametrize(
    ("mine", "rival", "my_tokens", "paid"),
    [(R, R, 9, 0.5), (R, R, 10, 0.0), (R, R, 11, 0.0), (R, W, 9, 0.0), (W, R, 9, 0.0), (W, W, 9, 0.0)],
)
def test_the_tiebreak_pays_only_the_strictly_shorter_of_two_right_answers(mine, rival, my_tokens, paid) -> None:
    game = Game(tiebreak_weight=0.5)
    got = game.challenge_reward(rollout(mine, my_tokens), rollout(rival, 10))
    assert got is not None
    assert got.tiebreak == paid


def test_the_headline_reward_has_no_length_term() -> None:
    short, long = (Game().challenge_reward(rollout(R, n), rollout(R, 10)) for n in (1, 1000))
    assert short == long


@pytest.mark.parametrize("stack", list(reward.STACKS))
def test_an_unknown_verdict_is_never_a_reward(stack) -> None:
    game = Game(stack=stack)
    assert game.draft_reward(rollout(INFRA)) is None
    assert game.challenge_reward(rollout(INFRA), rollout(R)) is None
    assert game.challenge_reward(rollout(R), rollout(INFRA)) is None


def test_the_paper_values_are_the_defaults() -> None:
    got = Game().challenge_reward(rollout(R), rollout(W))
    assert got is not None
    assert (got.correctness, got.conversion, got.format, got.total) == (2.0, 1.0, 0.5, 3.5)


@pytest.mark.parametrize("weight", [0.0, 1.0, 4.0])
def test_a_conversion_is_worth_its_weight(weight: float) -> None:
    game = Game(conversion_weight=weight)
    got = game.challenge_reward(rollout(R), rollout(W))
    assert got is not None
    assert (got.conversion, got.bonus, got.total) == (weight, weight, 2.5 + weight)
