"""Rivals that do not learn: only A moves, every bout names who it met, and a resumed run meets the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config, resolved
from agon.rundir import RunDir, read_bouts
from agon.rundir.pair import read_pair
from agon.rundir.records import RunState
from agon.training.loop import Training
from agon.training.rivals.league import League
from agon.types import Policy, Version
from tests.training.helpers.runs import config, directory, training

A0, A2, A4 = (Version.of(Policy.A, step, "ab12") for step in (0, 2, 4))


def with_rival(**rival: Any) -> Config:
    return Config.model_validate({**resolved(config()), "rival": rival})


def rows(run: RunDir) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_bouts(run).to_pylist()
    return found


def rivals(run: RunDir) -> list[str]:
    """The version that played B, bout by bout."""
    return [row["draft_version"] if row["drafter"] == "b" else row["challenge_version"] for row in rows(run)]


def fingerprint(run: RunDir) -> tuple[list[dict[str, Any]], str]:
    return rows(run), (run.path / "steps.jsonl").read_text()


# -- frozen -----------------------------------------------------------------------------------------------------------


def test_a_frozen_rival_plays_and_never_moves(tmp_path: Path) -> None:
    settings = with_rival(kind="frozen")
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    first = one.state.first
    assert one.state.versions[Policy.B] == first[Policy.B]
    assert one.state.versions[Policy.A] != first[Policy.A]
    assert {*rivals(run)} == {first[Policy.B]}
    for record in run.steps.records():
        assert set(record.update) == {Policy.A}, "A learns in every step, as drafter and as challenger"
        assert {name[-1] for name in record.ledger} == {"a", "b"}, "the rival's tokens have their own entry"
    assert read_pair(run.path).info.rival == "frozen"
    assert {*run.points[-1].systems} >= {"a", "b", "ab", "ba"}


def test_a_rival_that_learns_is_what_it_was(tmp_path: Path) -> None:
    plain, named = config(), with_rival(kind="policy")
    made = []
    for name, settings in (("x", plain), ("y", named)):
        run = directory(tmp_path, name, settings)
        assert training(run, settings).go()
        made.append(fingerprint(run))
    assert made[0] == made[1]


# -- league -----------------------------------------------------------------------------------------------------------


def test_a_league_grows_by_versions_of_a_that_moved() -> None:
    league = League(with_rival(kind="league", every=2))

    def kept(members: tuple[Version, ...], newest: Version, done: int) -> tuple[Version, ...]:
        return league.kept(RunState(versions={Policy.A: newest}, league=members), done)

    assert kept((), A0, 0) == (A0,)
    assert kept((A0,), A2, 1) == (A0,)
    assert kept((A0,), A2, 2) == (A0, A2)
    assert kept((A0, A2), A2, 4) == (A0, A2)


def test_every_version_of_a_league_is_drawn_by_name() -> None:
    def drawn(seed: int, step: int) -> Version:
        league = League(config(rival__kind="league", train__seed=seed))
        return league.seats(RunState(versions={Policy.A: A4}, league=(A0, A2, A4)), step)[Policy.B]

    counts = Counter(drawn(0, step) for step in range(90))
    assert set(counts) == {A0, A2, A4}
    assert min(counts.values()) > 15
    assert [drawn(0, step) for step in range(9)] == [drawn(0, step) for step in range(9)]
    assert [drawn(0, step) for step in range(9)] != [drawn(1, step) for step in range(9)]


def test_a_league_plays_earlier_versions_of_a_and_resumes_exactly(tmp_path: Path) -> None:
    settings = with_rival(kind="league", every=1)
    run = directory(tmp_path, "whole", settings)
    assert training(run, settings).go()
    seen = [Version(name) for name in rivals(run)]
    assert all(version.policy is Policy.A for version in seen)
    assert len({*seen}) > 2
    for row in rows(run):
        rival = row["draft_version"] if row["drafter"] == "b" else row["challenge_version"]
        assert int(rival[2:8]) <= row["step"], "a rival is never newer than the step"
    again = directory(tmp_path, "stopped", settings)
    stop_after(training(again, settings), 3)
    assert training(RunDir.open(again.path), settings).go()
    assert fingerprint(again) == fingerprint(run)


def test_a_league_keeps_the_folders_of_its_versions(tmp_path: Path) -> None:
    settings = with_rival(kind="league", every=2)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    assert len(one.state.league) > 2
    assert {*one.state.league} <= {folder.name for folder in (run.path / "published").iterdir()}
    assert run.saved_state(6).run.league == one.state.league


def test_a_league_leaves_no_pair_to_evaluate(tmp_path: Path) -> None:
    settings = with_rival(kind="league")
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    assert {*run.points[-1].systems} == {"a"}
    assert read_pair(run.path).info.rival == "league"


def stop_after(one: Training, steps: int) -> None:
    """Let a run fail in the step after so many."""
    step = one.step

    def fail() -> None:
        if one.machines.learner.step == steps:
            raise RuntimeError("stop here")
        step()

    one.step = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="stop here"):
        one.go()
