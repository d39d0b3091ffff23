"""Memory of the learner: what a step has freed and its allocator still holds, and an error of ours when it runs out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from agon.engine.trl.compat import grow_segments
from agon.errors import OutOfMemory


def release_freed_memory(device: torch.device) -> None:
    """Return freed memory to the device or the system.

    torch keeps a GPU's blocks, where an engine that wakes up needs them. glibc keeps the holes that tensors of many
    lengths leave in a CPU's heap: without this a learner there holds more after every long step.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "cpu" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def let_segments_grow(device: torch.device) -> None:
    """Let the allocator extend its blocks on a GPU: rows of many lengths leave holes in blocks of fixed size."""
    if device.type == "cuda":
        grow_segments()


@contextmanager
def explain_out_of_memory(what: str) -> Iterator[None]:
    """Report what took too much memory; a run, which knows its config, adds what would take less."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(
            f"out of memory {what}: {error}", fix="`agon plan CONFIG --gpu GPU` says what fits"
        ) from error
