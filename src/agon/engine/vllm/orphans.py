"""No orphans: when the run's process is gone, for whatever reason, the processes of its engine are killed too.

A killed run would leave several gigabytes behind, and a resumed one would find the GPU full. Every process of an engine
inherits a tag in its environment, from its first instruction on; a watcher, this file as a process of its own, waits
for the run to end and kills what carries the tag. Linux only, as vLLM is.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

NAME = "AGON_ENGINE"
"""Environment variable with the tag."""
LIMIT = 30.0
"""Seconds after which a process that does not die of SIGKILL is left to the kernel."""


class OrphanReaper:
    """Kills the processes that are started with `variables` when this process is gone."""

    def __init__(self) -> None:
        self.tag = uuid.uuid4().hex
        command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), self.tag]
        null = subprocess.DEVNULL
        self._watcher = subprocess.Popen(command, cwd="/", stdin=null, stdout=null, stderr=null, start_new_session=True)

    @property
    def variables(self) -> dict[str, str]:
        """What gives the tag to a process that is started with it, and to what that starts."""
        # vLLM renames its processes, which would write over the environment that they show
        return {NAME: self.tag, "SPT_NOENV": "1"}

    def processes(self) -> list[int]:
        return processes_with(self.tag)

    def kill(self) -> None:
        """Kill every process with the tag; the watcher keeps running."""
        kill_all(self.tag)

    def close(self) -> None:
        """End the watcher: no process will carry the tag any more."""
        self._watcher.kill()
        self._watcher.wait()


def processes_with(tag: str) -> list[int]:
    """The processes with `tag` in their environment."""
    processes = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [process for process in processes if tag_of(process) == tag]


def tag_of(process: int) -> str | None:
    """The tag of a process; None without one, or when the process is gone or belongs to another user."""
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((entry.decode().partition("=")[2] for entry in entries if entry.startswith(f"{NAME}=".encode())), None)


def kill_all(tag: str) -> None:
    """Kill what carries the tag until nothing does: a dying core may have started one more."""
    deadline = time.monotonic() + LIMIT
    while (processes := processes_with(tag)) and time.monotonic() < deadline:
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def watch(run: int, tag: str) -> None:
    """Wait until the process `run` is gone, then kill what it left."""
    try:
        waiting = select.poll()
        waiting.register(os.pidfd_open(run), select.POLLIN)
        waiting.poll()
    except ProcessLookupError:
        pass
    kill_all(tag)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
