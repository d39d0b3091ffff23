"""No orphans: when the run's process is gone, however it went, the processes of its engine go too.

A killed run would leave several gigabytes behind, and a resumed one would find the GPU full. Every process of an engine
inherits a mark in its environment, from its first instruction on; a watcher, this file as a process of its own, waits
for the run to end and ends what carries the mark. Linux only, as vLLM is.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "AGON_ENGINE"
"""Environment variable with the mark."""
LIMIT = 30.0
"""Seconds after which a process that does not die of SIGKILL is left to the kernel."""


class Leash:
    """Ties processes that are started under `held` to this one."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        words = [sys.executable, "-I", "-S", __file__, str(os.getpid()), self.mark]
        nothing = subprocess.DEVNULL
        self._watcher = subprocess.Popen(
            words, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is started here carries the mark, and so does what that starts."""
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # it serves the whole run, and must not be taken for the engine's
        # vLLM renames its processes, which would write over the environment that they show
        marks = {NAME: self.mark, "SPT_NOENV": "1"}
        os.environ.update(marks)
        try:
            yield
        finally:
            for name in marks:
                os.environ.pop(name, None)

    def processes(self) -> list[int]:
        return marked(self.mark)

    def end(self) -> None:
        """End every process with the mark; the watcher goes on."""
        end(self.mark)

    def untie(self) -> None:
        """End the watcher: nothing will carry the mark any more."""
        self._watcher.kill()
        self._watcher.wait()


def marked(mark: str) -> list[int]:
    """The processes with `mark` in their environment."""
    processes = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [process for process in processes if mark_of(process) == mark]


def mark_of(process: int) -> str | None:
    """The mark that a process carries; None without one, or when the process is gone or another user's."""
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((entry.decode().partition("=")[2] for entry in entries if entry.startswith(f"{NAME}=".encode())), None)


def end(mark: str) -> None:
    """Kill what carries the mark until nothing does: a dying core may have started one more."""
    deadline = time.monotonic() + LIMIT
    while (found := marked(mark)) and time.monotonic() < deadline:
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def watch(run: int, mark: str) -> None:
    """Wait until the process `run` is gone, then end what it left."""
    try:
        waiting = select.poll()
        waiting.register(os.pidfd_open(run), select.POLLIN)
        waiting.poll()
    except ProcessLookupError:
        pass
    end(mark)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
