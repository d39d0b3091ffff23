"""Processes and threads of engines that start."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
"""The command of a process that does nothing for ten minutes."""


def join_starting() -> None:
    """Wait for the threads in which engines start."""
    for thread in threading.enumerate():
        if thread.name == "agon-vllm-start":
            thread.join(20)


def gone(process: int, seconds: float = 10.0) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
