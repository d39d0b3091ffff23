"""The paper's sentences about its rewards (section 4.4) as tests, including where they stop being true.

Expected gradients are exact: a challenger that succeeds in context i with probability sigmoid(theta_i) is enumerated
over all 2^N outcomes of its group, with the score function d log p / d theta_i = c_i - p_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agon.game import reward
from agon.game.advantage import advantages
from agon.types import Verdict
from tests.game.helpers import verdict

FORMAT_WEIGHT = 0.5
outcomes = st.lists(st.booleans(), min_size=2, max_size=6)
thetas = st.floats(-2, 2)
exact = settings(max_examples=60, deadline=None)

Weigh = Callable[[Sequence[float]], Sequence[float | None]]


def unnormalised(rewards: Sequence[float]) -> Sequence[float]:
    return rewards


def standardised(rewards: Sequence[float]) -> Sequence[float | None]:
    return advantages(rewards, epsilon=0)


def gradient(stack: str, theta: Sequence[float], rivals: Sequence[bool], weigh: Weigh) -> list[float]:
    """E[sum_i w_i dlog p(c_i)/dtheta_i] over all outcomes of the challenger's group."""
    p = [1 / (1 + math.exp(-t)) for t in theta]
    total = [0.0] * len(theta)
    for outcome in product((False, True), repeat=len(theta)):
        chance = math.prod(q if c else 1 - q for c, q in zip(outcome, p, strict=True))
        paid = rewards(stack, outcome, rivals)
        for i, weight in enumerate(weigh(paid)):
            total[i] += chance * (weight or 0.0) * (outcome[i] - p[i])
    return total


def rewards(
    stack: str, mine: Sequence[bool], rivals: Sequence[bool], formed: Sequence[bool] | None = None
) -> list[float]:
    formed = formed or [True] * len(mine)
    return [
        reward.STACKS[stack](verdict(c, phi), verdict(a), FORMAT_WEIGHT).total
        for c, a, phi in zip(mine, rivals, formed, strict=True)
    ]


def with_terms(
    stack: str, mine: Sequence[bool], rivals: Sequence[bool], paid: Sequence[float], weight: float = 1.0
) -> list[float]:
    """Rewards with a graded term, as `reward.terms` adds it."""
    return [
        reward.STACKS[stack](replace(verdict(c), extra=weight * each), verdict(a), FORMAT_WEIGHT).total
        for c, a, each in zip(mine, rivals, paid, strict=True)
    ]


def cosine(u: Sequence[float], v: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(u, v, strict=True)) / math.hypot(*u) / math.hypot(*v)


@exact
@given(rivals=outcomes, data=st.data())
def test_in_expectation_the_margin_points_in_the_same_direction_as_the_cooperative_gradient(rivals, data) -> None:
    theta = data.draw(st.lists(thetas, min_size=len(rivals), max_size=len(rivals)))
    coop = gradient("coop", theta, rivals, unnormalised)
    margin = gradient("margin", theta, rivals, unnormalised)
    assert margin == pytest.approx([1.5 * g for g in coop], abs=1e-9), "3c(b) against 2c(b), and nothing else"


def test_where_it_stops_after_standardisation_the_margin_differs_by_its_nonlinearity() -> None:
    theta, rivals = [0.0, 0.0, 0.0, 0.0], [True, False, False, False]
    coop = gradient("coop", theta, rivals, standardised)
    margin = gradient("margin", theta, rivals, standardised)
    assert cosine(coop, margin) > 0.99, "nearly the same direction"
    assert margin != pytest.approx([margin[0] / coop[0] * g for g in coop], rel=1e-3), "but not exactly"


@exact
@given(rivals=outcomes, data=st.data())
def test_the_rivals_outcome_alone_contributes_no_expected_policy_gradient(rivals, data) -> None:
    theta = data.draw(st.lists(thetas, min_size=len(rivals), max_size=len(rivals)))
    p = [1 / (1 + math.exp(-t)) for t in theta]
    for i, a in enumerate(rivals):
        expected = sum(-float(a) * (p[i] if c else 1 - p[i]) * (c - p[i]) for c in (0, 1))
        assert expected == pytest.approx(0, abs=1e-12)


@exact
@given(rivals=outcomes, data=st.data())
def test_the_conversion_bonus_raises_the_effective_correctness_weight_from_2_to_3_where_the_opponent_failed(
    rivals, data
) -> None:
    theta = data.draw(st.lists(thetas, min_size=len(rivals), max_size=len(rivals)))
    coop = gradient("coop", theta, rivals, unnormalised)
    adv = gradient("adv", theta, rivals, unnormalised)
    assert adv == pytest.approx([g * (1.0 if a else 1.5) for g, a in zip(coop, rivals, strict=True)], abs=1e-9)


@given(mine=outcomes, rival=st.booleans(), phi=st.booleans())
def test_a_shared_opponent_normalises_to_exactly_the_advantage_of_the_conversion_free_reward(mine, rival, phi) -> None:
    assume(len(set(mine)) > 1)
    shared, formed = [rival] * len(mine), [phi] * len(mine)
    for stack in ("adv", "margin"):
        assert standardised(rewards(stack, mine, shared, formed)) == pytest.approx(
            standardised(rewards("coop", mine, shared, formed))
        )


def test_where_it_stops_the_shared_opponent_is_not_inert_when_the_format_term_varies_within_the_group() -> None:
    mine, shared, formed = [True, False, True, False], [False] * 4, [True, True, False, False]
    adv = standardised(rewards("adv", mine, shared, formed))
    coop = standardised(rewards("coop", mine, shared, formed))
    assert adv != pytest.approx(coop), "2c + phi/2 and 3c + phi/2 weigh correctness differently against format"


@given(mine=outcomes, data=st.data())
def test_within_group_variation_in_opponent_difficulty_makes_the_competitive_term_trainable(mine, data) -> None:
    rivals = data.draw(st.lists(st.booleans(), min_size=len(mine), max_size=len(mine)))
    solved = {a for c, a in zip(mine, rivals, strict=True) if c}
    assume(len(solved) == 2)  # right against a rival that failed and against one that did not
    assume(len(set(mine)) > 1)
    adv, coop = standardised(rewards("adv", mine, rivals)), standardised(rewards("coop", mine, rivals))
    assert adv != pytest.approx(coop)
    converted = [v for v, c, a in zip(adv, mine, rivals, strict=True) if c and not a]
    matched = [v for v, c, a in zip(adv, mine, rivals, strict=True) if c and a]
    assert min(converted) > max(matched), "solving where the opponent could not is worth more"


def test_an_all_right_group_is_dead_under_coop_and_alive_under_adv_when_rivals_vary() -> None:
    mine, rivals = [True] * 4, [True, True, False, False]
    assert advantages(rewards("coop", mine, rivals)) == [None] * 4
    assert None not in advantages(rewards("adv", mine, rivals))


def test_where_it_stops_a_format_term_that_varies_turns_the_margin_away_from_coop() -> None:
    mine, formed, rivals = [True, True, False, False], [True, False, True, False], [False] * 4
    coop, margin = (standardised(rewards(stack, mine, rivals, formed)) for stack in ("coop", "margin"))
    assert coop != pytest.approx(margin), "2c + phi/2 and 3c + phi/2 weigh correctness differently against format"
    constant = [standardised(rewards(stack, mine, rivals)) for stack in ("coop", "margin")]
    assert constant[0] == pytest.approx(constant[1])


@pytest.mark.parametrize("stack", ["coop", "adv"])
def test_an_all_wrong_group_is_dead_only_while_its_format_is_constant(stack: str) -> None:
    wrong, rivals = [False] * 4, [True, False, True, False]
    assert standardised(rewards(stack, wrong, rivals)) == [None] * 4
    alive = standardised(rewards(stack, wrong, rivals, [True, True, True, False]))
    assert alive == pytest.approx([0.5, 0.5, 0.5, -1.5]), "format is then the whole gradient"


def test_the_margin_gives_signal_to_groups_the_challenger_cannot_influence() -> None:
    """All wrong, rivals vary: the margin's advantages are not zero though no action differed. Pure noise, as the
    paper says."""
    mine, rivals = [False] * 4, [True, True, False, False]
    assert advantages(rewards("adv", mine, rivals)) == [None] * 4
    assert None not in advantages(rewards("margin", mine, rivals))


@pytest.mark.parametrize(
    ("mine", "rival", "step"), [(False, False, 0), (False, True, 0), (True, True, 2), (True, False, 3)]
)
def test_the_resulting_reward_ladder_is_0_2_3(mine, rival, step) -> None:
    assert reward.adv(verdict(mine), verdict(rival), FORMAT_WEIGHT).total - FORMAT_WEIGHT == step


@given(mine=outcomes, data=st.data())
def test_without_terms_every_stack_pays_what_the_paper_pays_to_the_bit(mine, data) -> None:
    rivals = data.draw(st.lists(st.booleans(), min_size=len(mine), max_size=len(mine)))
    ladders = {"coop": lambda c, a: 2.0 * c, "adv": lambda c, a: 2.0 * c + (c and not a)}
    for stack, ladder in ladders.items():
        paper = [ladder(c, a) + FORMAT_WEIGHT for c, a in zip(mine, rivals, strict=True)]
        assert rewards(stack, mine, rivals) == paper == with_terms(stack, mine, rivals, [0.0] * len(mine))


@given(mine=outcomes, constant=st.floats(-3, 3), data=st.data())
def test_a_graded_term_that_is_constant_in_a_group_cancels(mine, constant, data) -> None:
    rivals = data.draw(st.lists(st.booleans(), min_size=len(mine), max_size=len(mine)))
    for stack in reward.STACKS:
        plain = rewards(stack, mine, rivals)
        assume(max(plain) > min(plain))
        paid = with_terms(stack, mine, rivals, [constant] * len(mine))
        assert standardised(paid) == pytest.approx(standardised(plain))


@given(mine=outcomes, slope=st.floats(0.1, 3), constant=st.floats(-3, 3))
def test_a_graded_term_that_follows_right_and_wrong_cancels_where_no_bonus_is_paid(mine, slope, constant) -> None:
    assume(len(set(mine)) > 1)
    rivals = [True] * len(mine)
    paid = [slope * c + constant for c in mine]
    coop, adv = (standardised(with_terms(stack, mine, rivals, paid)) for stack in ("coop", "adv"))
    assert coop == adv == pytest.approx(standardised(rewards("coop", mine, rivals)))


def test_where_it_stops_a_term_that_follows_right_and_wrong_dilutes_the_bonus() -> None:
    mine, rivals, paid = [True, True, False, False], [True, False, True, False], [4.0, 4.0, 0.0, 0.0]
    plain, diluted = standardised(rewards("adv", mine, rivals)), standardised(with_terms("adv", mine, rivals, paid))
    assert plain[1] - plain[0] > diluted[1] - diluted[0] > 0


@given(paid=st.lists(st.integers(-5, 5), min_size=2, max_size=6), weight=st.floats(0.01, 100), right=st.booleans())
def test_where_only_a_graded_term_varies_it_decides_alone_and_its_weight_cancels(paid, weight, right) -> None:
    assume(len(set(paid)) > 1)
    mine, rivals = [right] * len(paid), [True] * len(paid)
    assert standardised(rewards("adv", mine, rivals)) == [None] * len(paid)
    assert standardised(with_terms("adv", mine, rivals, paid, weight)) == pytest.approx(standardised(paid), abs=1e-6)


def test_where_it_stops_a_shared_opponent_is_not_inert_when_a_graded_term_varies() -> None:
    mine, shared, paid = [True, False, True, False], [False] * 4, [0.3, 0.1, 0.0, 0.2]
    adv, coop = (standardised(with_terms(stack, mine, shared, paid)) for stack in ("adv", "coop"))
    assert adv != pytest.approx(coop)


@given(mine=outcomes, data=st.data())
def test_a_graded_term_leaves_the_bonus_as_it_is_before_normalisation(mine, data) -> None:
    size = {"min_size": len(mine), "max_size": len(mine)}
    rivals, paid = data.draw(st.lists(st.booleans(), **size)), data.draw(st.lists(st.integers(-5, 5), **size))
    adv, coop = (with_terms(stack, mine, rivals, paid) for stack in ("adv", "coop"))
    bonus = [float(c and not a) for c, a in zip(mine, rivals, strict=True)]
    assert [one - other for one, other in zip(adv, coop, strict=True)] == bonus


def test_two_completions_with_the_same_answer_receive_the_same_advantage_regardless_of_how_they_reasoned() -> None:
    got = advantages([reward.solo(verdict(c), FORMAT_WEIGHT).total for c in (True, False, True, False)])
    assert got[0] == got[2]
    assert got[1] == got[3]


def test_a_verdict_refuses_to_be_a_truth_value() -> None:
    judged: Verdict = verdict(True)
    with pytest.raises(TypeError, match=r"\.correct"):
        bool(judged)
