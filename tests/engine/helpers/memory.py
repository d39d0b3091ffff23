"""How much memory of its own a process takes meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


@contextmanager
def allocated() -> Iterator[list[int]]:
    """Gives a list with one number: the most bytes that torch had allocated for tensors on the CPU, from the start."""
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile

    most = [0]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        yield most
    events = list(profiled.profiler.kineto_results.experimental_event_tree())
    while events:
        event = events.pop()
        events += event.children
        if event.tag == _EventType.Allocation:
            most[0] = max(most[0], event.extra_fields.total_allocated)


def in_files(weight: Any) -> int:
    """Bytes of a weight, or of its part here, that are a view of a mapped file: on a GPU they would be allocated."""
    local = weight.to_local() if hasattr(weight, "to_local") else weight
    start = local.untyped_storage().data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, _, last = line.split()[0].partition("-")
        if line.endswith(".safetensors") and int(first, 16) <= start < int(last, 16):
            return int(local.numel() * local.element_size())
    return 0
