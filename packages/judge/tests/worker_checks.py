"""A check whose jobs misbehave in their worker, by name, and what the tests of the pool share."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from agon_judge.workers import worker

CHECK = "worker_checks:check"
send = worker.send


def check(deed: str, marks: str | None) -> tuple[str, str]:
    """Do the deed and return `correct` if still alive; a path in `marks` is a file that counts the calls."""
    times = _count(Path(marks)) if marks and Path(marks).is_absolute() else 1
    if deed == "hang":
        while True:
            pass
    elif deed == "sleep":
        time.sleep(600)
    elif deed == "segfault" or (deed == "segfault once" and times == 1):
        ctypes.string_at(0)
    elif deed == "exit":
        os._exit(3)
    elif deed == "exit beside a child":
        if os.fork() == 0:
            time.sleep(120)
        os._exit(3)
    elif deed == "stop once" and times == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif deed == "die after the answer" and times == 1:
        worker.send = _send_and_die
    elif deed == "die when idle" and times == 1:
        threading.Timer(0.2, _kill_self).start()
    elif deed == "eat":
        bytearray(1 << 40)
    elif deed == "raise":
        raise ValueError("no")
    elif deed == "work":
        time.sleep(0.05)
    return "correct", str(times)


def _send_and_die(link: socket.socket, outcome: object) -> NoReturn:
    send(link, outcome)
    _kill_self()


def environment() -> dict[str, str]:
    """The environment of a script that imports what this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _kill_self() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _count(path: Path) -> int:
    with path.open("a") as file:
        file.write(".")
    return path.stat().st_size
