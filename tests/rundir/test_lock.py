"""One writer per run directory, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agon.errors import RunDirError
from agon.rundir.files import locked

HOLDER = """
import os, sys, time
from pathlib import Path
from agon.rundir.files import locked
with locked(Path(sys.argv[1])):
    if sys.argv[2] == "with-worker" and os.fork() == 0:
        os.write(1, f"{os.getpid()}\\n".encode())
        time.sleep(60)
        os._exit(0)
    os.write(1, b"held\\n")
    time.sleep(60)
"""


@contextmanager
def holder(path: Path, kind: str = "alone") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock; killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), kind], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_trainer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with holder(tmp_path / ".lock") as other:
        assert line(other) == "held"
        with pytest.raises(RunDirError, match=f"by process {other.pid}\n") as refused, locked(tmp_path / ".lock"):
            pytest.fail("two trainers hold one directory")
        assert f"kill {other.pid}" in refused.value.fix


def test_a_full_disk_hides_the_pid_and_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with locked(tmp_path / ".lock"), pytest.raises(RunDirError, match="in use by process unknown"):
        locked(tmp_path / ".lock").__enter__()


def test_kill_9_frees_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path / ".lock") as other:
        assert line(other) == "held"
        other.send_signal(signal.SIGKILL)
        other.wait()
        with locked(tmp_path / ".lock"):
            assert int((tmp_path / ".lock").read_text()) == os.getpid()


def test_a_forked_worker_that_outlives_a_killed_trainer_does_not_hold_its_lock(tmp_path: Path) -> None:
    with holder(tmp_path / ".lock", "with-worker") as other:
        lines = {line(other), line(other)}
        worker = int((lines - {"held"}).pop())
        try:
            other.kill()
            other.wait()
            os.kill(worker, 0)
            with locked(tmp_path / ".lock"):
                assert int((tmp_path / ".lock").read_text()) == os.getpid()
        finally:
            os.kill(worker, signal.SIGKILL)


def test_the_lock_is_held_while_its_own_workers_come_and_go(tmp_path: Path) -> None:
    with locked(tmp_path / ".lock"):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(RunDirError, match=str(os.getpid())), locked(tmp_path / ".lock"):
            pytest.fail("the worker took the lock with it")


def test_the_pid_of_a_dead_process_in_the_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n")
    with locked(tmp_path / ".lock"):
        pass
    with locked(tmp_path / ".lock"):
        pass


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="cannot lock"), locked(tmp_path / "gone" / ".lock"):
        pytest.fail("locked nothing")
