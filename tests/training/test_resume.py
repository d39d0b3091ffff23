"""Stopped, failed, killed and resumed: no finished step is lost, and the files equal those of an untouched run."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon import interrupt
from agon.errors import EngineError, RunDirError
from agon.report.overview import run_line
from agon.rundir import RunDir
from agon.training.display import open_display
from agon.training.loop import Training
from agon.training.machines import Machines
from agon.types import Policy, Request, Version
from tests.training.helpers.interrupted import Stop, died_and_resumed, dying, fingerprint, whole
from tests.training.helpers.runs import config, directory, half_right, training


@pytest.mark.parametrize("after", [1, 10, 17, 18, 25, 33, 40, 60])
def test_a_run_that_died_and_resumed_equals_one_that_did_not(tmp_path: Path, after: int) -> None:
    run = died_and_resumed(tmp_path, config(), after)
    assert fingerprint(run) == whole(tmp_path, config())


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
    done = first.machines.learner.step
    assert not done or (run.checkpoints / f"step_{done:06d}").is_dir()
    assert training(RunDir.open(run.path), settings).go()
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, settings), "checkpoints": None}


def test_a_signal_in_the_last_evaluation_stops_a_run_that_is_not_done(tmp_path: Path) -> None:
    settings = config(train__max_steps=6)
    run = directory(tmp_path, "stopped", settings)
    one = training(run, settings)
    sample = one.machines.sampler.sample

    async def interrupted(request: Request) -> Any:
        if one.machines.learner.step == one.schedule.total and not one._interrupt.asked:
            os.kill(os.getpid(), signal.SIGTERM)
        return await sample(request)

    one.machines.sampler.sample = interrupted  # type: ignore[method-assign]
    assert not one.go()
    assert run.points[-1].step < one.schedule.total
    assert run_line(run.path).state == "stopped"
    assert training(RunDir.open(run.path), settings).go()
    assert run_line(run.path).state == "done"
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, settings), "checkpoints": None}


class Gone(io.StringIO):
    """A pipe whose reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_signal_saves_although_nobody_reads_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`agon train CONFIG 2>&1 | tee log`: Ctrl-C ends `tee` too."""
    settings = config(save__every=50, eval__points=0)
    run = directory(tmp_path, "stopped", settings)
    asked = 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == 20:
            monkeypatch.setattr(sys, "stderr", Gone())
            os.kill(os.getpid(), signal.SIGINT)
        return half_right(request)

    one = training(run, settings, answer=answer)
    one.display = one.log.display = open_display(6, json=False, trackers=(), run=run)
    assert not one.go()
    assert one.machines.learner.step == 2
    assert (run.checkpoints / "step_000002").is_dir()


@pytest.mark.parametrize("after", [0, 20])
def test_a_run_in_a_cell_of_a_notebook_trains_and_stops_as_in_a_script(tmp_path: Path, after: int) -> None:
    """There the caller's thread runs an event loop."""
    run, asked = directory(tmp_path, "cell", config()), 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == after:
            os.kill(os.getpid(), signal.SIGINT)
        return half_right(request)

    async def cell() -> bool:
        return training(run, config(), answer=answer).go()

    assert asyncio.run(cell()) is (after == 0)
    assert asyncio.run(cell())
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, config()), "checkpoints": None}


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
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, settings), "checkpoints": None}


def test_a_signal_before_anything_is_drawn_leaves_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    one = training(directory(tmp_path, "stopped", config()), config())

    async def work() -> None:
        raise AssertionError("it was asked")

    one._interrupt.asked = time.monotonic()
    with one._runner, pytest.raises(interrupt.Interrupted):
        one._draw(work())
    gc.collect()
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


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
    assert {**fingerprint(run), "checkpoints": None} == {**whole(tmp_path, settings), "checkpoints": None}


def test_nothing_is_learnt_from_an_engine_that_holds_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(eval__points=0)
    whole = directory(tmp_path, "whole", settings)
    assert training(whole, settings).go()
    run = directory(tmp_path, "wrong", settings)
    one = training(run, settings)

    def attest(machines: Machines, versions: Iterable[Version]) -> list[str]:
        assert list(versions) == list(one.state.versions.values())
        if one.machines.learner.step == 3:
            raise EngineError("engine 0 does not hold A", fix="")
        return []

    monkeypatch.setattr(Machines, "attest", attest)
    with pytest.raises(EngineError, match="does not hold"):
        one.go()
    assert len(run.steps.records()) == one.machines.learner.step == 3
    monkeypatch.undo()
    assert training(RunDir.open(run.path), settings).go()
    assert (run.path / "steps.jsonl").read_bytes() == (whole.path / "steps.jsonl").read_bytes()


def test_nothing_is_learnt_from_a_sample_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "wrong", settings)
    one = training(run, settings)
    sample, old = one.machines.sampler.sample, Version("a@000000-before00")

    async def stale(request: Request) -> Any:
        completion = await sample(request)
        stale = completion.version.policy is Policy.A and one.machines.learner.step == 3
        return replace(completion, version=old) if stale else completion

    monkeypatch.setattr(one.machines.sampler, "sample", stale)
    with pytest.raises(EngineError, match="was drawn by a@000000-before00, and a@00000"):
        one.go()
    assert len(run.steps.records()) == one.machines.learner.step == 3
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


def test_a_second_signal_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config()
    run = directory(tmp_path, "stopped", settings)

    def answer(request: Request) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return half_right(request)

    monkeypatch.setattr(interrupt, "SAME", -1.0)
    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        training(run, settings, answer=answer).go()


def test_the_same_signal_from_launcher_and_scheduler_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "SAME", 60.0)
    settings = config()
    run = directory(tmp_path, "stopped", settings)

    def answer(request: Request) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        return half_right(request)

    assert not training(run, settings, answer=answer).go()


@pytest.mark.parametrize(("part", "saved"), [("update", "step_000003"), ("write", "step_000000")])
def test_an_error_of_any_kind_loses_no_finished_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, saved: str
) -> None:
    settings = config(save__every=50, eval__points=0)
    run = directory(tmp_path, "failed", settings)
    one = training(run, settings)
    timed, entered = one.log.timed, 0

    @contextmanager
    def failing(name: str) -> Iterator[None]:
        nonlocal entered
        entered += name == part
        if entered == 4:
            raise ZeroDivisionError
        yield

    failing.add, failing.take = timed.add, timed.take  # type: ignore[attr-defined]
    monkeypatch.setattr(one.log, "timed", failing)
    with pytest.raises(ZeroDivisionError):
        one.go()
    newest = sorted(path.name for path in run.checkpoints.iterdir())[-1]
    assert newest == saved, "no checkpoint is ahead of the log"
    monkeypatch.undo()
    assert training(RunDir.open(run.path), settings).go()


def test_weights_in_the_middle_of_a_move_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(save__every=50, eval__points=0)
    run = directory(tmp_path, "failed", settings)
    one = training(run, settings, answer=dying(20))
    monkeypatch.setattr(one.machines.learner, "consistent", False)
    with pytest.raises(Stop):
        one.go()
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_000000"]


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
