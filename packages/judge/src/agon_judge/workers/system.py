"""What the workers ask of the system: one call on Linux, a detour where that call is missing, as on macOS."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Set
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


def wait_for_signal(signals: Set[signal.Signals], seconds: float) -> int | None:
    """The next of some blocked signals; None when none came in time."""
    if hasattr(signal, "sigtimedwait"):
        received = signal.sigtimedwait(signals, seconds)
        return received.si_signo if received else None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, seconds)
    number = signal.sigwait({*signals, signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, 0)
    return None if number == signal.SIGALRM else number


def limit_memory(size: int) -> None:
    """Let this process and its children have so many bytes; a system that knows no such limit goes without."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    shown = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True).stdout
    return clock_seconds(shown.strip())


def clock_seconds(text: str) -> float:
    """Seconds of a time as `ps` writes it: 3-02:01:00 on Linux, 0:01.25 on macOS; 0 of a process that is gone."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":") if clock else []:
        total = 60 * total + float(part)
    return 86400 * float(days or 0) + total
