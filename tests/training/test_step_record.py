"""The line of steps.jsonl: counted by hand once."""

from __future__ import annotations

import json
from dataclasses import replace

from agon.game.exchange import Exchange
from agon.game.rules import Game
from agon.rundir.records import StepRecord
from agon.training.step_record import step_record
from agon.types import Policy, Reason, Request, Verdict, seed_for
from tests.game.helpers import RIGHT, WRONG, problems, read_tag, run

FOUR = Game(group_size=4)
UPDATES = {Policy.B: {"loss": 0.1}, Policy.A: {"loss": 0.2}}


def drafts_right_at_0(request: Request) -> str:
    """Draft 0 right, others wrong; challenges right except the one that reads draft 0."""
    right = {seed_for(0, 0, "draft", Policy.A, "p0", 0)}
    if request.seat is Policy.A:
        return RIGHT if request.seed in right else WRONG
    return WRONG if request.seed == seed_for(0, 0, "challenge", Policy.B, "p0", 0) else RIGHT


def test_a_step_counted_by_hand() -> None:
    played, _ = run(problems(1), 0, Game(group_size=4), drafts_right_at_0)
    record = step_record(played, UPDATES, FOUR)
    assert (record.step, record.drafter, record.challenger) == (0, Policy.A, Policy.B)
    assert record.competitive is not None
    assert (record.standalone.pass_rate, record.competitive.pass_rate) == (0.25, 0.75)
    assert record.standalone.live_groups == record.competitive.live_groups == 1
    assert record.exchange == Exchange(
        draft_right=1, draft_wrong=3, conversions=3, regressions=1, shown=4, empty_peeks=0, leaks=0, echoes=0
    )
    assert record.standalone.reward_mean == (2.5 + 3 * 0.5) / 4
    assert list(record.update) == [Policy.A, Policy.B]
    assert record.ungraded == 0


def test_a_group_whose_rewards_are_all_equal_is_not_live() -> None:
    played, _ = run(problems(2), 0, Game(group_size=4), drafts_right_at_0)
    record = step_record(played, UPDATES, FOUR)
    assert record.competitive is not None
    assert (record.standalone.groups, record.standalone.live_groups) == (2, 1), "all drafts of the second are wrong"
    assert (record.competitive.groups, record.competitive.live_groups) == (2, 1), "and all of its challenges right"


def test_a_record_comes_back_from_its_line_as_it_was() -> None:
    played, _ = run(problems(2), 0, Game(group_size=4), drafts_right_at_0)
    record = step_record(played, UPDATES, FOUR)
    assert StepRecord.model_validate_json(json.dumps(record.model_dump(mode="json"))) == record


def test_one_stage_arms_have_no_competitive_part() -> None:
    game = Game(group_size=2, opponent="none", stack="coop")
    played, _ = run(problems(1), 0, game)
    record = step_record(played, {}, game)
    assert (record.competitive, record.exchange) == (None, None)


def test_rows_without_a_verdict_are_counted_and_left_out() -> None:
    async def broken(problem, completion) -> Verdict:
        return Verdict(False, True, Reason.INFRA) if completion.text == WRONG else await read_tag(problem, completion)

    played, _ = run(problems(1), 0, Game(group_size=4), drafts_right_at_0, broken)
    record = step_record(played, {}, FOUR)
    assert record.ungraded == 4
    assert (record.standalone.graded, record.standalone.pass_rate) == (1, 1.0)


def test_groups_in_which_the_bonus_bites_are_counted_where_one_is_paid() -> None:
    mixed, _ = run(problems(1), 0, Game(group_size=4), lambda request: RIGHT if request.seat == "b" else WRONG)
    assert step_record(mixed, {}, FOUR).bonus_groups == 0
    half = iter([RIGHT, WRONG, WRONG, WRONG])
    played, _ = run(problems(1), 0, Game(group_size=4), lambda request: RIGHT if request.seat == "b" else next(half))
    assert step_record(played, {}, FOUR).bonus_groups == 1
    assert step_record(played, {}, replace(FOUR, stack="coop")).bonus_groups is None
