"""Stop a run at every single change it makes to the disk: what is found is whole, and the rest of the run the same."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.errors import CheckpointError, RunError
from agon.rundir import RunDir, checkpoint, files
from agon.rundir.records import RunState
from tests.rundir.helpers import faults, runs
from tests.rundir.helpers.crashes import crash_everywhere, steps_from, undisturbed


@pytest.fixture
def before(tmp_path: Path) -> Iterator[Path]:
    """A run before its last step, which saves, removes a checkpoint, slims another and replaces the pair."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        runs.play(runs.new_run(Path(folder) / "before"), 1, runs.STEPS - 1)
        yield Path(folder) / "before"


STRIKES = [
    pytest.param(faults.kill, id="kill"),
    pytest.param(faults.eager, id="eager"),
    pytest.param(faults.lazy, id="lazy"),
]


@pytest.mark.slow
@pytest.mark.parametrize("strike", STRIKES)
def test_a_run_stopped_at_any_change_resumes_to_the_same_files(
    strike: Callable[[faults.Disk], None], before: Path
) -> None:
    assert crash_everywhere(before, strike) > 60


@pytest.mark.nightly
@pytest.mark.parametrize("strike", STRIKES)
def test_a_run_stopped_at_any_change_of_any_step_resumes_to_the_same_files(
    strike: Callable[[faults.Disk], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    runs.new_run(tmp_path / "before")
    assert crash_everywhere(tmp_path / "before", strike, first=1) > 150


@pytest.mark.slow
def test_a_system_without_exchange_is_as_safe(before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "swap_names", lambda one, two: False)
    assert crash_everywhere(before, faults.kill) > 60


FIRST: dict[str, Callable[[RunDir], object]] = {
    "line": lambda run: run.steps.append(runs.record(1)),
    "checkpoint": lambda run: run.save(1, runs.fill(1), RunState()),
    "bouts": lambda run: files.make_folder(run.bouts / "deep"),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_of_its_kind_is_on_disk_when_it_is_promised(name: str, tmp_path: Path) -> None:
    run = runs.new_run(tmp_path / "counted")
    with faults.Disk(run.path).watching() as disk:
        FIRST[name](run)
    expected = runs.contents(run.path)
    run = runs.new_run(tmp_path / "cut")

    def first(say: Callable[[str], None]) -> None:
        FIRST[name](run)
        say("promised")
        (run.path / "later").mkdir()

    assert faults.in_child(first, faults.Disk(run.path, len(disk.changes), faults.lazy)) == ["promised"]
    assert runs.contents(run.path) == expected
    assert not (run.path / "later").exists()
    assert name != "bouts" or (run.bouts / "deep").is_dir()


@pytest.mark.slow
def test_a_reader_finds_the_old_or_the_new_pair_at_every_moment(before: Path) -> None:
    _, changes = undisturbed(before)
    for at in range(len(changes) - 30, len(changes)):
        root = before.with_name(f"read-{at}")
        shutil.copytree(before, root)
        words = steps_from(runs.STEPS, root, faults.Disk(root, at, faults.kill))
        assert "pair4" not in words
        assert runs.pair_step(RunDir(root / "run")) in {runs.STEPS - 1, runs.STEPS}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_failed_save_is_told_and_leaves_earlier_checkpoints_intact(code: int, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    checkpoint.save(root, 1, runs.fill(1), {"n": 1})
    first = runs.contents(root)
    with faults.Disk(root).watching() as disk:
        checkpoint.save(root, 2, runs.fill(2), {"n": 2})
    for at in range(len(disk.changes)):
        shutil.rmtree(root / "step_000002", ignore_errors=True)
        failing = faults.Disk(root, at, faults.failing(code))
        with failing.watching(), pytest.raises(CheckpointError, match=os.strerror(code)) as told:
            checkpoint.save(root, 2, runs.fill(2), {"n": 2})
        assert "--resume" in told.value.fix
        assert not checkpoint.newest(root).skipped
        assert first.items() <= runs.contents(root).items()


def test_a_disk_that_stays_full_does_not_hide_its_error(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        def nothing_works(*args: object, **kwargs: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for name in ("open", "unlink", "rmdir"):
            patch.setattr(os, name, nothing_works)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(CheckpointError, match="No space left"):
        checkpoint.save(tmp_path / "checkpoints", 1, full, {})
    assert checkpoint.newest(tmp_path / "checkpoints").path is None
    checkpoint.save(tmp_path / "checkpoints", 1, runs.fill(1), {})
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_000001"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_log_on_a_failing_disk_keeps_every_step_it_told(code: int, tmp_path: Path) -> None:
    run = runs.new_run(tmp_path)
    with faults.Disk(tmp_path).watching() as disk:
        run.steps.append(runs.record(1))
    for at in range(len(disk.changes) - 1):
        failing = faults.Disk(tmp_path, at, faults.failing(code))
        with failing.watching(), pytest.raises(RunError, match=r"steps\.jsonl"):
            run.steps.append(runs.record(2))
        assert [entry.step for entry in run.steps.records()] == [1]
    run.steps.append(runs.record(2))
    assert [entry.step for entry in run.steps.records()] == [1, 2]


def test_an_interrupt_inside_a_save_leaves_no_trace(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        runs.fill(1)(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 1, interrupted, {})
    assert not list(tmp_path.iterdir())
