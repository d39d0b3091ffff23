"""The bonus is a weight on contexts: exact, by enumerating every outcome of a group through `algorithm.score`.

E[sum_i A_i grad log pi(b_i)] = sum_i D_i grad p_i with D_i = E_others[A_i(right) - A_i(wrong)], since the rival's
outcome is no function of the challenger's tokens. The table of docs/competition.md is this, for N = 8.
"""

from __future__ import annotations

from itertools import product
from statistics import fmean

import pytest

from agon.algorithm import score
from agon.game.bonus import bonus_weight, contexts
from agon.game.rules import Game
from agon.types import Bout
from tests.game.helpers.contexts import group, pulls

COOP, AGON, MARGIN = Game(stack="coop"), Game(), Game(stack="margin")


@pytest.mark.parametrize(("wrong", "right_draft", "wrong_draft"), [(1, 1.66, 2.50), (4, 1.47, 2.10), (7, 1.37, 1.89)])
def test_the_bonus_tilts_mixed_groups_towards_wrong_drafts(wrong: int, right_draft: float, wrong_draft: float) -> None:
    assert pulls(AGON, 8, wrong, 0.6, 0.3) == (
        pytest.approx(right_draft, abs=6e-3),
        pytest.approx(wrong_draft, abs=6e-3),
    )


@pytest.mark.parametrize(("weight", "ratio"), [(1.0, 1.43), (2.0, 1.79), (4.0, 2.34)])
def test_the_tilt_saturates_with_the_weight(weight: float, ratio: float) -> None:
    on_right, on_wrong = pulls(Game(conversion_weight=weight), 8, 4, 0.6, 0.3)
    assert on_wrong / on_right == pytest.approx(ratio, abs=6e-3)


@pytest.mark.parametrize("wrong", [1, 4, 7])
def test_without_a_bonus_and_with_the_margin_there_is_hardly_a_tilt(wrong: int) -> None:
    for game in (COOP, MARGIN):
        on_right, on_wrong = pulls(game, 8, wrong, 0.6, 0.3)
        assert on_wrong / on_right == pytest.approx(1, abs=0.14)


@pytest.mark.parametrize("wrong", [0, 8])
def test_in_an_unmixed_group_the_bonus_cancels(wrong: int) -> None:
    mine, without = (max(filter(None, pulls(game, 8, wrong, 0.6, 0.3))) for game in (AGON, COOP))
    assert mine == pytest.approx(without, rel=1e-4), "but for the 1e-4 in Equation 1's denominator"


def weight(game: Game, *groups: list[Bout]) -> float | None:
    return bonus_weight(contexts(bouts, game) for bouts in groups)


def test_the_weight_of_a_run_is_the_mean_pull_of_its_groups() -> None:
    mixed = group([True, True, False, False], [True, False, True, False])
    tilt = weight(AGON, mixed)
    assert weight(COOP, mixed) == pytest.approx(1)
    assert tilt is not None
    assert tilt > 1.2
    assert weight(AGON, group([False] * 4, [True, False, True, False])) is None, "no right draft to compare with"
    assert weight(AGON, mixed, group([False] * 4, [True] * 4)) == tilt, "unmixed groups do not count"


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("game", [AGON, COOP, MARGIN, Game(conversion_weight=4.0)])
def test_the_weight_of_any_group_is_that_of_its_scores(game: Game, size: int) -> None:
    def pull(drafts: tuple[bool, ...], met: tuple[bool, ...], i: int) -> float:
        scored = (score(group(drafts, [*met[:i], mine, *met[i + 1 :]]), game)[i].challenge for mine in (True, False))
        right, wrong = ((challenge and challenge.advantage) or 0.0 for challenge in scored)
        return right - wrong

    for drafts, met in product(product((False, True), repeat=size), repeat=2):
        pulls = {side: [pull(drafts, met, i) for i in range(size) if drafts[i] is side] for side in (True, False)}
        found = weight(game, group(drafts, met))
        if not all(pulls.values()) or abs(fmean(pulls[True])) < 1e-3:  # 1e-4 is in the denominator of Equation 1
            assert found is None
        else:
            assert found == pytest.approx(fmean(pulls[False]) / fmean(pulls[True]), rel=1e-3, abs=1e-3)
