"""The line of steps.jsonl: counted by hand once, and independent of how processes shared the work."""

from __future__ import annotations

import json

from agon.engine.scripted import ScriptedSampler  # noqa: F401 - the world below runs on it
from agon.game.rules import Game
from agon.training.step_record import step_record
from agon.types import Policy, Reason, Request, Verdict, seed_for
from tests.game.world import RIGHT, WRONG, problems, read_tag, run

UPDATES = {Policy.B: {"loss": 0.1}, Policy.A: {"loss": 0.2}}


def drafts_right_at_0(request: Request) -> str:
    """Draft 0 right, others wrong; challenges right except the one that reads draft 0."""
    right = {seed_for(0, 0, "draft", Policy.A, "p0", 0)}
    if request.policy is Policy.A:
        return RIGHT if request.seed in right else WRONG
    return WRONG if request.seed == seed_for(0, 0, "challenge", Policy.B, "p0", 0) else RIGHT


def test_a_step_counted_by_hand() -> None:
    played, _ = run(problems(1), 0, Game(group_size=4), drafts_right_at_0)
    record = step_record([played], UPDATES)
    assert (record["step"], record["drafter"], record["challenger"]) == (0, "a", "b")
    assert record["standalone"]["solo_rate"] == 0.25
    assert record["competitive"]["solo_rate"] == 0.75
    assert record["standalone"]["live_groups"] == record["competitive"]["live_groups"] == 1
    counted = {
        key: record["competitive"][key]
        for key in ("rival_wrong", "rival_right", "conversions", "regressions", "empty_peeks")
    }
    assert counted == {"rival_wrong": 3, "rival_right": 1, "conversions": 3, "regressions": 1, "empty_peeks": 0}
    assert record["standalone"]["reward_mean"] == (2.5 + 3 * 0.5) / 4
    assert list(record["update"]) == ["a", "b"]
    assert record["infra_rows"] == 0
    json.dumps(record)


def test_two_processes_write_the_line_of_one() -> None:
    batch = problems(4)
    whole, _ = run(batch)
    parts = [run(batch[k::2])[0] for k in (0, 1)]
    assert step_record(parts, UPDATES) == step_record([whole], UPDATES)


def test_one_stage_arms_have_no_competitive_part() -> None:
    played, _ = run(problems(1), 0, Game(group_size=2, opponent="none", stack="coop"))
    assert step_record([played], {})["competitive"] is None


def test_rows_without_a_verdict_are_counted_and_left_out() -> None:
    async def broken(problem, completion) -> Verdict:
        return Verdict(False, True, Reason.INFRA) if completion.text == WRONG else await read_tag(problem, completion)

    played, _ = run(problems(1), 0, Game(group_size=4), drafts_right_at_0, broken)
    record = step_record([played], {})
    assert record["infra_rows"] == 4
    assert record["standalone"] | {"graded": 1, "solo_rate": 1.0} == record["standalone"]
