"""The run: what is written, published, kept, resumed. Real engines are killed in evidence/kill_resume.py."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agon.errors import EngineError, RunDirError, RunError
from agon.rundir import RunDir, read_bouts
from agon.rundir.bouts import files_in
from agon.rundir.pair import read_pair
from agon.training.health import verifier_failing
from agon.training.loop import Training
from agon.training.machines import Machines
from agon.training.schedule import Schedule
from agon.types import Policy, Request, Version
from tests.game.helpers import RIGHT, WRONG
from tests.training.helpers.records import record, stream
from tests.training.helpers.runs import OneNumberLearner, Verifier, config, directory, half_right, problems, training


def fingerprint(run: RunDir) -> dict[str, Any]:
    return {
        "steps": (run.path / "steps.jsonl").read_bytes(),
        "points": (run.path / "points.json").read_bytes(),
        "bouts": read_bouts(run).to_pylist(),
        "pair": (run.path / "pair" / "agon.json").read_bytes(),
        "checkpoints": sorted(path.name for path in run.checkpoints.iterdir()),
    }


def whole(tmp_path: Path) -> dict[str, Any]:
    settings = config()
    run = directory(tmp_path, "whole", settings)
    assert training(run, settings).go()
    return fingerprint(run)


# -- what a run leaves behind -----------------------------------------------------------------------------------------


def test_every_step_is_written_once_and_roles_rotate(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    records = run.steps.records()
    assert [record.step for record in records] == list(range(6))
    assert [record.drafter for record in records] == [Policy.A, Policy.B] * 3
    assert list(files_in(run.bouts)) == list(range(6))
    assert all(record.ledger for record in records)


def test_an_epoch_plays_every_problem_once_in_a_new_order(tmp_path: Path) -> None:
    settings = config(train__epochs=2)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    played = [row["problem_id"] for row in read_bouts(run).to_pylist() if row["index"] == 0]
    assert sorted(played[:12]) == sorted(played[12:]) == sorted(problem.id for problem in problems(12))
    assert played[:12] != played[12:]


def test_two_processes_share_a_batch_without_overlap(tmp_path: Path) -> None:
    settings = config(train__problems_per_step=4)
    run = directory(tmp_path, "x", settings)
    alone = training(run, settings).batch(1)
    parts = []
    for rank in (0, 1):
        one = training(run, settings)
        one.machines.learner.rank, one.machines.learner.processes = rank, 2  # type: ignore[misc]
        parts.append(one.batch(1))
    assert [problem for pair in zip(*parts, strict=True) for problem in pair] == alone


def test_versions_are_named_after_step_and_weights_and_never_reused(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    sampler = one.machines.sampler
    names = sampler.published - {"a@000000-scripted", "b@000000-scripted"}  # type: ignore[attr-defined]
    assert len({name.split("-")[1] for name in names}) == len(names)
    last = {policy: f"-{one.machines.learner.hash(policy)[:8]}" for policy in Policy}
    assert all(sampler.latest[policy].endswith(last[policy]) for policy in Policy)  # type: ignore[attr-defined]


def test_a_policy_that_did_not_move_is_not_published_again(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings, answer=lambda request: RIGHT)
    assert one.go()
    assert one.state.versions == one.state.first, "every group was dead"
    assert len(list((run.path / "published").iterdir())) == 2


def test_published_folders_do_not_pile_up(tmp_path: Path) -> None:
    settings = config(train__epochs=3)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    kept = {path.name for path in (run.path / "published").iterdir()}
    assert {*one.state.versions.values(), *one.state.first.values()} <= kept
    assert len(kept) <= 6


def test_the_best_pair_on_dev_is_deployed_with_its_direction(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    assert [point.step for point in run.points] == [0, 3, 6]
    best = max(run.points, key=lambda point: point.score)
    info = read_pair(run.path).info
    assert info.step == best.step
    assert info.direction is not None
    assert info.direction is best.direction


def test_without_evaluation_points_the_newest_pair_is_deployed(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    assert read_pair(run.path).info.step == 6
    assert not (run.path / "points.json").exists()


def test_the_schedule_evaluates_at_the_start_and_at_the_end() -> None:
    schedule = Schedule.of(config(eval__points=3), 31)
    assert schedule.total == 15, "a last batch that is not full is left out"
    assert sorted(schedule.points) == [0, 5, 10, 15]
    assert [done for done in range(1, 16) if schedule.saves(done)] == [2, 4, 5, 6, 8, 10, 12, 14, 15]


# -- stop and resume --------------------------------------------------------------------------------------------------


class Stop(Exception):
    """The process is gone."""


def dying(after: int) -> Any:
    """A script that dies at its n-th request."""
    asked = 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == after:
            raise Stop
        return half_right(request)

    return answer


@pytest.mark.parametrize("after", [1, 10, 17, 18, 25, 33, 40, 60])
def test_a_run_that_died_and_resumed_equals_one_that_did_not(tmp_path: Path, after: int) -> None:
    settings = config()
    run = directory(tmp_path, "died", settings)
    with pytest.raises(Stop):
        training(run, settings, answer=dying(after)).go()
    assert training(RunDir.open(run.path), settings).go()
    assert fingerprint(run) == whole(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [3, 20, 37])
def test_a_signal_saves_and_the_resumed_run_is_the_same(tmp_path: Path, number: int, after: int) -> None:
    settings = config()
    run = directory(tmp_path, "stopped", settings)
    asked = 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == after:
            os.kill(os.getpid(), number)
        return half_right(request)

    first = training(run, settings, answer=answer)
    assert not first.go()
    assert asked < 60, "it stopped long before its end"
    assert (run.checkpoints / f"step_{first.machines.learner.step:06d}").is_dir()
    assert training(RunDir.open(run.path), settings).go()
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path), "checkpoints": None}


def test_a_signal_in_an_update_asks_nothing_more_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyboard's signal reaches the engine too: publishing to it would start it again only to stop."""
    settings = config()
    run = directory(tmp_path, "stopped", settings)
    one = training(run, settings)
    published = watched(one, monkeypatch)
    monkeypatch.setattr(one.machines.sampler, "sample", refusing_after(one, step=1))
    hashes = one.machines.learner.hash

    def hash_of(policy: Policy) -> str:
        if one.machines.learner.step == 1 and not one._interrupt.asked:
            os.kill(os.getpid(), signal.SIGINT)
        return hashes(policy)

    monkeypatch.setattr(one.machines.learner, "hash", hash_of)
    assert not one.go()
    assert {folder.name[:8] for folder in published} == {"a@000000", "b@000000"}
    assert [record.step for record in run.steps.records()] == [0]
    assert training(RunDir.open(run.path), settings).go()
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path), "checkpoints": None}


def watched(one: Training, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that a run publishes from now on."""
    folders: list[Path] = []
    publish = one.machines.sampler.publish

    def note(version: Version, folder: Path) -> None:
        folders.append(folder)
        publish(version, folder)

    monkeypatch.setattr(one.machines.sampler, "publish", note)
    return folders


def refusing_after(one: Training, step: int) -> Any:
    """The sampler's own `sample` until a step is done; then nobody may ask."""
    sample = one.machines.sampler.sample

    async def asked(request: Request) -> Any:
        assert one.machines.learner.step < step, "asked after the signal"
        return await sample(request)

    return asked


@pytest.mark.parametrize("fails", [3, 4, 7])
def test_an_engine_that_fails_after_an_update_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    settings = config(save__every=50)
    run = directory(tmp_path, "failed", settings)
    one = training(run, settings)
    publish, calls = one.machines.sampler.publish, 0

    def failing(version: Version, folder: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == fails:
            raise EngineError("the engine is gone", fix="")
        publish(version, folder)

    monkeypatch.setattr(one.machines.sampler, "publish", failing)
    with pytest.raises(EngineError, match="gone"):
        one.go()
    done = one.machines.learner.step
    assert done >= 1
    assert (run.checkpoints / f"step_{done:06d}").is_dir()
    assert len(run.steps.records()) == done
    assert training(RunDir.open(run.path), settings).go()
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path), "checkpoints": None}


def test_a_step_that_learnt_from_another_policy_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(save__every=1, eval__points=0)
    run = directory(tmp_path, "wrong", settings)
    one = training(run, settings)

    def alarms(machines: Machines, metrics: Any) -> list[str]:
        if one.machines.learner.step == 3:
            raise EngineError("samples of A are off the learner", fix="")
        return []

    monkeypatch.setattr(Machines, "alarms", alarms)
    with pytest.raises(EngineError, match="off the learner"):
        one.go()
    assert sorted(path.name for path in run.checkpoints.iterdir())[-1] == "step_000002"
    monkeypatch.undo()
    assert training(RunDir.open(run.path), settings).go()


def test_a_resumed_run_serves_from_folders_that_no_pruning_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "x", settings)
    with pytest.raises(Stop):
        training(run, settings, answer=dying(33)).go()
    again = training(RunDir.open(run.path), settings)
    folders = watched(again, monkeypatch)
    assert again.go()
    assert len(folders) > 2
    assert {folder.parent for folder in folders} == {run.path / "published"}


def test_a_colocated_engine_sleeps_through_the_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(eval__points=0, train__max_steps=1)
    one = training(directory(tmp_path, "x", settings), settings)
    order: list[str] = []
    monkeypatch.setattr(Machines, "rest", lambda machines: order.append("rest"))
    monkeypatch.setattr(one.machines.learner, "rehearse", lambda *sizes: order.append("rehearse"))
    one.go()
    assert order == ["rest", "rehearse", "rest"]


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "stopped", settings)

    def answer(request: Request) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return half_right(request)

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        training(run, settings, answer=answer).go()


def test_handlers_are_put_back_after_a_run(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    settings = config()
    training(directory(tmp_path, "x", settings), settings).go()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_finished_run_resumes_to_nothing(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    before = fingerprint(run)
    assert training(RunDir.open(run.path), settings).go()
    assert fingerprint(run) == before


def test_two_trainers_on_one_directory_are_refused(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    with run.lock(), pytest.raises(RunDirError):
        training(run, settings).go()


# -- sick runs --------------------------------------------------------------------------------------------------------


def test_a_failing_verifier_stops_the_run_and_saves_it(tmp_path: Path) -> None:
    settings = config(train__epochs=30, eval__points=0)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings, verify=Verifier(lambda completion: completion.text == WRONG))
    with pytest.raises(RunError, match="verifier is failing") as caught:
        one.go()
    assert "--resume" in caught.value.fix
    assert len(run.steps.records()) == 100
    assert (run.checkpoints / "step_000100").is_dir()


def test_one_row_in_a_hundred_without_a_verdict_is_survived() -> None:
    one, two = (record(0, standalone=stream(0.4, n=50), competitive=stream(0.4, n=50), ungraded=n) for n in (1, 2))
    assert verifier_failing([one] * 100) is None
    assert verifier_failing([two] * 99) is None, "too early to tell"
    assert "200 of 10000" in str(verifier_failing([two] * 100))


def test_a_sick_run_says_so_once(tmp_path: Path) -> None:
    settings = config(train__epochs=3, eval__points=0)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings, answer=lambda request: RIGHT)
    assert one.go()
    said = one.display.notes  # type: ignore[attr-defined]
    assert len(said) == len(set(said))
    assert any("group" in sentence for sentence in said), said


def test_the_learner_of_these_tests_moves_only_what_has_signal() -> None:
    learner = OneNumberLearner(1)
    learner.fit(lambda step: [], lambda update: True)
    assert learner.weights == {Policy.A: 0.0, Policy.B: 1.0}
