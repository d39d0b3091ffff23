"""Memory that a step has freed and its allocator still holds."""

from __future__ import annotations

import ctypes

import torch


def release_freed_memory(device: torch.device) -> None:
    """Return freed memory to the device or the system.

    torch keeps a GPU's blocks, where an engine that wakes up needs them. glibc keeps the holes that tensors of many
    lengths leave in a CPU's heap: without this a learner there holds more after every long step.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "cpu" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
