"""Wait for what happens, for at most so many seconds, and never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait in a task; TimeoutError if it does not happen."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for sends no events
            await asyncio.sleep(0.005)


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait in a thread; AssertionError if it does not happen."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(process: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(*processes: int, seconds: float = 20.0) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + seconds
    while any(map(alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
