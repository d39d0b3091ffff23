"""The process that forks workers: it imports math-verify once, so that a worker starts in milliseconds.

The server is given one socket per worker. It keeps a worker alive on each of them, and reports on the same socket when
one has died. It runs only the loop in this file, so it cannot hang. When the process that started it dies, for whatever
reason, the server and all workers die too.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from agon.verify.workers.messages import MAX_BYTES, Exited, Finished, Started, encode

Check = Callable[..., tuple[str, str]]
"""What a worker calls: strings in, the name and the detail of an outcome out."""
STALL = 15
"""Deadlines of wall time after which a worker is killed whose CPU clock stands still; a slow one may continue."""
PR_SET_PDEATHSIG = 1
_PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT


def main(parent: int, fds: list[int], check: str, deadline: float, memory: int) -> NoReturn:
    """Serve the parent process on sockets `fds`; workers call `check`, named as `package.module:function`."""
    module, _, name = check.partition(":")
    home = importlib.import_module(module)
    function: Check = getattr(home, name)
    getattr(home, "warm_up", lambda: None)()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(5_000)
    gc.collect()
    gc.freeze()
    ForkServer(parent, [socket.socket(fileno=fd) for fd in fds], function, deadline).serve()


@dataclass
class Child:
    """A worker process, and when its CPU clock last moved or it had nothing to do."""

    jobs: socket.socket
    cpu: float = 0.0
    moved: float = field(default_factory=time.monotonic)
    stalled: bool = False


class ForkServer:
    """A loop that replaces workers which have died and kills those which stall."""

    def __init__(self, parent: int, sockets: list[socket.socket], check: Check, deadline: float) -> None:
        self.parent, self.sockets, self.check, self.deadline = parent, sockets, check, deadline
        self.children: dict[int, Child] = {}

    def serve(self) -> NoReturn:
        """Run until SIGTERM arrives or the parent is gone; then end all workers."""
        signals = {signal.SIGCHLD, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        for jobs in self.sockets:
            self.fork(jobs)
        while os.getppid() == self.parent:
            received = signal.sigtimedwait(signals, 1.0)
            if received and received.si_signo == signal.SIGTERM:
                break
            self.reap()
            for pid, child in self.children.items():
                self.watch(pid, child)
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        while self.children:
            del self.children[os.waitpid(-1, 0)[0]]
        os._exit(0)

    def fork(self, jobs: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            for other in self.sockets:
                if other is not jobs:
                    other.close()
            work(jobs, self.check, self.deadline)
        self.children[pid] = Child(jobs)

    def reap(self) -> None:
        """Report workers that have died, with the jobs that they leave behind, and replace them."""
        while os.getppid() == self.parent:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            child = self.children.pop(pid)
            message = Exited(os.waitstatus_to_exitcode(status), child.stalled, _drain(child.jobs))
            child.jobs.send(encode(message))
            self.fork(child.jobs)

    def watch(self, pid: int, child: Child) -> None:
        """Kill a worker that has a job and uses no CPU time; one that uses too much is ended by its own timer."""
        before, child.cpu = child.cpu, _cpu_seconds(pid)
        if child.cpu > before or not _has_job(child.jobs):
            child.moved = time.monotonic()
        elif time.monotonic() - child.moved > STALL * self.deadline:
            child.stalled = True
            os.kill(pid, signal.SIGKILL)


def work(jobs: socket.socket, check: Check, deadline: float) -> NoReturn:
    """A worker: one job in, one outcome out. A job leaves the socket after its outcome was sent, so none is lost.

    The kernel sends SIGPROF when a job has used its CPU seconds, which also ends C code that holds the GIL.
    """
    server = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # it died before prctl
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    jobs.send(encode(Started(os.getpid())))
    while data := jobs.recv(MAX_BYTES, socket.MSG_PEEK):
        number, args = json.loads(data)
        signal.setitimer(signal.ITIMER_PROF, deadline)
        outcome = _run(check, args)
        signal.setitimer(signal.ITIMER_PROF, 0)
        jobs.send(encode(Finished(number, *outcome)))
        jobs.recv(MAX_BYTES)
    os._exit(0)


def _run(check: Check, args: list[str | None]) -> tuple[str, str]:
    """The outcome of one call; an exception means that the expressions cannot be compared."""
    try:
        return check(*args)
    except Exception as error:
        return "unparsable", type(error).__name__


def _drain(jobs: socket.socket) -> list[int]:
    """Take all jobs out of a socket and return their numbers."""
    numbers = []
    while _has_job(jobs):
        numbers.append(json.loads(jobs.recv(MAX_BYTES))[0])
    return numbers


def _has_job(jobs: socket.socket) -> bool:
    try:
        return bool(jobs.recv(1, _PEEK))
    except OSError:
        return False


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
