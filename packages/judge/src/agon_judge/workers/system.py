"""What the workers ask of the system; where a call is missing, as on macOS, they look once a second instead."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def die_with_parent() -> bool:
    """Ask the kernel to kill this process when its parent ends; False where it cannot, and one has to look."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(PR_SET_PDEATHSIG, signal.SIGKILL) == 0


def limit_memory(size: int) -> None:
    """Let this process and its children have so many bytes; a system that knows no such limit goes without."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
