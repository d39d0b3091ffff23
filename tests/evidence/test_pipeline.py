"""The simulation of a run, where its times can be written down."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
from _pipeline import Costs, Layout, Lengths, simulate
from simulator import Measured, fitted

COSTS = Costs(step=0.01, row=0.001, prefill=0.0001, verdict=0.5, update=2.0, token=0.01, rest=1.0)
BOUT = Lengths(prompt=100, draft=50, seen=200, challenge=30)
DRAFT = 100 * 0.0001 + 50 * 0.011
CHALLENGE = 200 * 0.0001 + 30 * 0.011
LEARNT = 2.0 + 0.01 * 380
UPDATE = LEARNT + 1.0


def test_one_bout_is_its_parts_one_after_the_other() -> None:
    found = simulate(COSTS, Layout(workers=2), [[BOUT]])
    assert found.seconds() == pytest.approx(DRAFT + CHALLENGE + 0.5 + UPDATE)
    assert found.waited == [pytest.approx(DRAFT + CHALLENGE + 0.5)]
    assert found.engines == pytest.approx((DRAFT + CHALLENGE) / found.seconds())
    assert found.learner == pytest.approx(LEARNT / found.seconds())


def test_the_verdict_on_a_draft_is_awaited_too() -> None:
    found = simulate(replace(COSTS, verdict=5.0), Layout(workers=2), [[BOUT]])
    assert found.waited == [pytest.approx(max(DRAFT + 5.0, DRAFT + CHALLENGE + 5.0))]
    assert simulate(replace(COSTS, verdict=5.0), Layout(workers=1), [[BOUT]]).waited == [pytest.approx(DRAFT + 10.0)]


def test_a_batch_shares_the_step_and_a_full_engine_makes_rows_wait() -> None:
    alone = [[Lengths(0, 50), Lengths(0, 50)]]
    quick = replace(COSTS, verdict=0.0)
    assert simulate(quick, Layout(), alone).waited == [pytest.approx(50 * 0.012, rel=0.02)]
    assert simulate(quick, Layout(slots=1), alone).waited == [pytest.approx(2 * 50 * 0.011)]
    assert simulate(quick, Layout(engines=2), alone).waited == [pytest.approx(50 * 0.011)]
    assert simulate(replace(quick, feed=1.0), Layout(engines=2), alone).waited == [pytest.approx(2.0 + 50 * 0.011)]


def test_learners_share_the_tokens_and_nothing_else() -> None:
    one, four = (simulate(COSTS, Layout(learners=n), [[BOUT]]).seconds() for n in (1, 4))
    assert one - four == pytest.approx(3.8 * 3 / 4)


@pytest.mark.parametrize(("draft", "longer"), [(50, "update"), (2000, "play")])
def test_a_step_ahead_takes_the_longer_of_play_and_update(draft: int, longer: str) -> None:
    quick = replace(COSTS, verdict=0.0, token=0.0, step=0.0, row=0.011)  # a batch saves nothing
    steps = [[Lengths(0, draft)]] * 12
    play, update = draft * 0.011, 3.0
    assert simulate(quick, Layout(), steps).steady(0) == pytest.approx(play + update)
    ahead = simulate(quick, Layout(staleness=1), steps).steady(1)
    assert ahead == pytest.approx({"play": play, "update": update}[longer], rel=0.01)


def test_work_beside_other_work_takes_longer_and_work_alone_does_not() -> None:
    quick = replace(COSTS, verdict=0.0, token=0.0, step=0.0, row=0.011)
    steps = [[Lengths(0, 400)]] * 12
    slowed = replace(quick, beside=1.5)
    assert simulate(slowed, Layout(), steps).steady(0) == pytest.approx(simulate(quick, Layout(), steps).steady(0))
    # 4.4 s of play beside 3 s of update: both are 1.5 times slower until the update is over, then play has the machine
    assert simulate(slowed, Layout(staleness=1), steps).steady(1) == pytest.approx(3 * 1.5 + 1.4, rel=0.02)


def test_costs_are_found_again_from_the_times_that_they_make() -> None:
    costs = Costs(step=0.02, row=0.001, prefill=0.001, verdict=0.0, update=3.0, token=0.001, rest=0.0)
    runs = [measured(costs, [Lengths(20, tokens, 50, tokens)] * count) for count, tokens in ((16, 60), (32, 30))]
    found = fitted(runs, beside=1.0)
    for name in ("step", "row", "prefill", "update", "token"):
        assert getattr(found, name) == pytest.approx(getattr(costs, name), rel=0.02)


def measured(costs: Costs, step: list[Lengths]) -> Measured:
    play = simulate(costs, Layout(), [step] * 3).waited
    return Measured([step] * 3, play, [costs.update + costs.token * sum(row.learnt for row in step)] * 3)
