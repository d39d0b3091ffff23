"""Steps that are played ahead of the learner: whose samples each learns from, and what a resume makes of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agon.errors import EngineError
from agon.rundir import RunDir, read_bouts
from agon.training import rivals
from agon.training.flights import Flights
from agon.training.loop import FLIGHTS, Training
from agon.types import Completion, Policy, Request, Stream, Version
from tests.training.helpers.interrupted import died_and_resumed, fingerprint, whole
from tests.training.helpers.runs import config, directory, half_right, training


def stale(ahead: int, **more: Any) -> Any:
    return config(train__staleness=ahead, **more)


def versions_after(run: RunDir, steps: int) -> list[dict[Policy, Version]]:
    """The versions that a run had after so many updates, by its checkpoints."""
    return [dict(run.saved_state(step).run.versions) for step in range(steps)]


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_step_is_played_by_the_versions_of_as_many_updates_before(tmp_path: Path, ahead: int) -> None:
    settings = stale(ahead, save__every=1, save__keep=9)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    records, versions = run.steps.records(), versions_after(run, 6)
    assert [record.staleness for record in records] == [min(ahead, step) for step in range(6)]
    assert [record.versions for record in records] == [versions[max(step - ahead, 0)] for step in range(6)]
    rows = read_bouts(run, ["step", "staleness", "draft_version", "challenge_version"]).to_pylist()
    for row in rows:
        record = records[row["step"]]
        drawn = row["draft_version"], row["challenge_version"]
        assert drawn == (record.versions[record.drafter], record.versions[record.challenger])
        assert row["staleness"] == record.staleness


def test_a_step_learns_from_exactly_its_own_bouts(tmp_path: Path) -> None:
    plain, ahead = config(), stale(2)
    runs = [directory(tmp_path, name, settings) for name, settings in (("plain", plain), ("ahead", ahead))]
    for run, settings in zip(runs, (plain, ahead), strict=True):
        assert training(run, settings).go()
    names = [read_bouts(run, ["step", "problem_id", "index", "draft_text"]).to_pylist() for run in runs]
    assert names[0] == names[1], "the script ignores weights, and seeds come from names"


class FollowsTheNewest(rivals.Seated):
    """Draws from whatever was published last."""

    async def sample(self, request: Request) -> Completion:
        return await self.engine.sample(request)


@pytest.mark.parametrize("wrong", [True, False])
def test_samples_of_a_different_version_are_not_learnt_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    settings = stale(1)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    monkeypatch.setattr(one.flights, "begin", lambda step, play: None)  # each begins when the learner asks for it
    monkeypatch.setattr(one.flights, "land", lambda step, play: one.flights.beside(play()))
    if not wrong:
        assert one.go()
        return
    monkeypatch.setattr("agon.training.loop.Seated", FollowsTheNewest)
    with pytest.raises(EngineError, match="was drawn by"):
        one.go()
    assert len(run.steps.records()) == 1, "nothing was learnt from that step"


def test_the_next_step_is_played_while_the_learner_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stale(1, eval__points=0)
    one = training(directory(tmp_path, "x", settings), settings)
    learner, seen = one.machines.learner, list[int]()
    update = learner.update

    def working(streams: Sequence[Stream], check: Any) -> Any:
        began = time.monotonic()
        while asked(one) < rows(learner.step + 1) and learner.step < 5 and time.monotonic() - began < 20:
            time.sleep(0.01)
        seen.append(asked(one))
        return update(streams, check)

    monkeypatch.setattr(learner, "update", working)
    assert one.go()
    assert all(count >= rows(min(step + 1, 5)) for step, count in enumerate(seen))


def asked(one: Training) -> int:
    return sum(event.kind == "end" for event in one.machines.sampler.events)  # type: ignore[attr-defined]


def rows(step: int) -> int:
    """Completions of all steps up to this one: 2 problems, groups of 2, 2 stages."""
    return 8 * (step + 1)


def test_with_nothing_ahead_a_step_begins_when_it_is_asked_for() -> None:
    flights, begun = Flights(0), list[int]()

    async def play() -> Any:
        begun.append(1)

    flights.begin(0, play)
    assert not begun
    flights.close()


@pytest.mark.parametrize(("ahead", "after"), [(1, 18), (1, 25), (1, 41), (2, 26), (2, 33), (2, 57)])
def test_a_run_that_died_and_resumed_equals_one_that_did_not(tmp_path: Path, ahead: int, after: int) -> None:
    run = died_and_resumed(tmp_path, stale(ahead), after)
    assert fingerprint(run) == whole(tmp_path, stale(ahead))


@pytest.mark.parametrize("after", [20, 37])
def test_a_signal_saves_and_what_was_in_flight_is_played_again(tmp_path: Path, after: int) -> None:
    settings = stale(1)
    run = directory(tmp_path, "stopped", settings)
    asked = 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == after:
            os.kill(os.getpid(), signal.SIGTERM)
        return half_right(request)

    first = training(run, settings, answer=answer)
    assert not first.go()
    assert training(RunDir.open(run.path), settings).go()
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, settings), "checkpoints": None}


def test_a_checkpoint_holds_the_versions_that_play_what_is_in_flight(tmp_path: Path) -> None:
    settings = stale(2, save__every=1, save__keep=9)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    versions = versions_after(run, 6)
    flights = run.saved_state(4).run.flights
    assert [(flight.step, flight.began) for flight in flights] == [(4, 2), (5, 3)]
    held = {path.name for path in (run.checkpoints / "step_000004" / FLIGHTS).iterdir()}
    assert held == {*versions[2].values(), *versions[3].values()} - {*versions[4].values(), *versions[0].values()}
    assert not (run.checkpoints / "step_000006" / FLIGHTS).exists(), "nothing is in flight at the end"


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_two_versions_stay_and_one_more_for_every_step_ahead(tmp_path: Path, ahead: int) -> None:
    settings = stale(ahead, train__epochs=2, save__every=1, save__keep=20)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    kept = {path.name for path in (run.path / "published").iterdir()}
    past = [set(versions.values()) for versions in versions_after(run, 13)]
    assert kept == past[0].union(*past[-(ahead + 2) :])
