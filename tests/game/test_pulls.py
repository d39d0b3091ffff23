"""The bonus is a weight on contexts: how hard a group's update pulls on challenges of right and of wrong drafts.

The numbers are those of docs/competition.md.
"""

from __future__ import annotations

import pytest

from agon.game.rules import Game
from tests.game.helpers.contexts import pulls

SIZE, KEPT, CONVERTED = 8, 0.6, 0.3


def of(game: Game, wrong: int) -> tuple[float, float]:
    right_draft, wrong_draft = pulls(game, SIZE, wrong, KEPT, CONVERTED)
    assert right_draft is not None
    assert wrong_draft is not None
    return right_draft, wrong_draft


@pytest.mark.parametrize(
    ("wrong", "coop", "agon", "by_weight"),
    [
        (1, (1.74, 1.76), (1.66, 2.50), {1: 1.51, 2: 1.83, 4: 2.21}),
        (4, (1.74, 1.73), (1.47, 2.10), {1: 1.43, 2: 1.79, 4: 2.34}),
        (7, (1.84, 1.79), (1.37, 1.89), {1: 1.38, 2: 1.76, 4: 2.43}),
    ],
)
def test_the_bonus_pulls_harder_on_answers_to_wrong_drafts(
    wrong: int, coop: tuple[float, float], agon: tuple[float, float], by_weight: dict[int, float]
) -> None:
    assert of(Game(stack="coop"), wrong) == pytest.approx(coop, abs=0.005)
    assert of(Game(), wrong) == pytest.approx(agon, abs=0.005)
    for weight, ratio in by_weight.items():
        right_draft, wrong_draft = of(Game(conversion_weight=float(weight)), wrong)
        assert wrong_draft / right_draft == pytest.approx(ratio, abs=0.005)


def test_the_margin_is_no_weight() -> None:
    right_draft, wrong_draft = of(Game(stack="margin"), 4)
    assert wrong_draft / right_draft == pytest.approx(1, abs=0.05)
