"""The bonus acts where right challenges of a group met both right and wrong drafts, and nowhere else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agon.game.bonus import bites, bonus_groups
from agon.game.reward import conversion, correctness
from agon.game.rules import Game
from tests.game.helpers import MALFORMED_RIGHT, RIGHT, WRONG, problems, run, verdict

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=8)


def group(outcomes: list[tuple[bool, bool]]) -> tuple[list[float], list[float]]:
    """Correctness and bonus of challenges, given whether each draft and its challenge are right."""
    pairs = [(verdict(draft), verdict(challenge)) for draft, challenge in outcomes]
    return [correctness(mine) for _, mine in pairs], [conversion(mine, rival) for rival, mine in pairs]


@given(OUTCOMES)
def test_it_bites_exactly_where_right_challenges_met_right_and_wrong_drafts(outcomes: list[tuple[bool, bool]]) -> None:
    met = {draft for draft, challenge in outcomes if challenge}
    assert bites(*group(outcomes)) == (met == {True, False})


def test_rows_without_a_reward_are_left_out() -> None:
    correct, bonus = group([(True, True), (False, True), (True, False)])
    assert bites(correct, bonus)
    assert not bites([correct[0], None, correct[2]], [bonus[0], None, bonus[2]])


def test_a_malformed_row_alone_is_no_bite() -> None:
    drafts, texts = iter([WRONG] * 4), iter([RIGHT, MALFORMED_RIGHT, WRONG, RIGHT])
    played, _ = run(problems(1), 0, Game(group_size=4), lambda request: next(drafts if request.seat == "a" else texts))
    assert played.competitive is not None
    assert len({row.reward.total for row in played.competitive.rollouts() if row.reward}) == 3
    assert bonus_groups(played.competitive.groups) == 0


def test_groups_are_counted() -> None:
    drafts, texts = iter([WRONG, RIGHT] * 2 + [WRONG] * 4), iter([RIGHT] * 8)
    played, _ = run(problems(2), 0, Game(group_size=4), lambda request: next(drafts if request.seat == "a" else texts))
    assert played.competitive is not None
    assert bonus_groups(played.competitive.groups) == 1
