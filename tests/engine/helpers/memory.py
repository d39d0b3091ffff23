"""How much memory of its own a process takes meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY = 0.001


def anonymous() -> int:
    """Bytes of this process that are not pages of files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * PAGE


@contextmanager
def peak() -> Iterator[list[int]]:
    """Gives a list with one number: the most bytes taken since the start, looked up every millisecond."""
    began, most, over = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(EVERY):
            most[0] = max(most[0], anonymous() - began)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()
