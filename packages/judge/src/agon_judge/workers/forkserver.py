"""The process that forks workers: it imports math-verify once, so that a worker starts in milliseconds.

The server is given one socket per worker. It keeps a worker alive on each of them, and reports on the same socket when
one has died. It runs only the loop in this file, so it cannot hang. When the process that started it dies, for whatever
reason, the server and all workers die too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from agon_judge.workers.channel import Channel, channel_of
from agon_judge.workers.messages import Exited, Finished, Started, encode
from agon_judge.workers.system import cpu_seconds, die_with_parent, limit_memory, wait_for_signal

Check = Callable[..., tuple[str, str]]
"""What a worker calls: strings in, the name and the detail of an outcome out."""
LOOK = 1.0
"""Seconds between two looks at what no signal reports."""


def main(
    parent: int, fds: list[int], check: str, deadline: float, memory: int, stall: float, setup: str | None = None
) -> NoReturn:
    """Serve the parent process on sockets `fds`; workers call `check`, named as `package.module:function`."""
    module, _, name = check.partition(":")
    home = importlib.import_module(module)
    function: Check = getattr(home, name)
    getattr(home, "warm_up", lambda *_: None)(*([] if setup is None else [setup]))
    limit_memory(memory)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(5_000)
    gc.collect()
    gc.freeze()
    ForkServer(
        parent, [channel_of(socket.socket(fileno=fd)) for fd in fds], function, deadline, stall * deadline
    ).serve()


@dataclass
class Child:
    """A worker process, and when its CPU clock last moved or it had nothing to do."""

    jobs: Channel
    cpu: float = 0.0
    moved: float = field(default_factory=time.monotonic)
    stalled: bool = False


class ForkServer:
    """A loop that replaces workers which have died and kills those which stall."""

    def __init__(self, parent: int, channels: list[Channel], check: Check, deadline: float, stall: float) -> None:
        self.parent, self.channels, self.check, self.deadline, self.stall = parent, channels, check, deadline, stall
        self.children: dict[int, Child] = {}

    def serve(self) -> NoReturn:
        """Run until SIGTERM arrives or the parent is gone; then end all workers."""
        signals = {signal.SIGCHLD, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        for jobs in self.channels:
            self.fork(jobs)
        while os.getppid() == self.parent:
            if wait_for_signal(signals, LOOK) == signal.SIGTERM:
                break
            self.reap()
            for pid, child in self.children.items():
                self.watch(pid, child)
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        while self.children:
            del self.children[os.waitpid(-1, 0)[0]]
        os._exit(0)

    def fork(self, jobs: Channel) -> None:
        pid = os.fork()
        if pid == 0:
            for other in self.channels:
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
        before, busy = child.cpu, child.jobs.has_message()
        child.cpu = cpu_seconds(pid) if busy else before
        if child.cpu > before or not busy:
            child.moved = time.monotonic()
        elif time.monotonic() - child.moved > self.stall:
            child.stalled = True
            os.kill(pid, signal.SIGKILL)


def work(jobs: Channel, check: Check, deadline: float) -> NoReturn:
    """A worker: one job in, one outcome out. A job leaves the socket after its outcome was sent, so none is lost.

    The kernel sends SIGPROF when a job has used its CPU seconds, which also ends C code that holds the GIL.
    """
    server = os.getppid()
    ends_with_it = die_with_parent()
    if os.getppid() != server:  # it died before that
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    jobs.send(encode(Started(os.getpid())))
    while data := jobs.peek() if ends_with_it else _peek(jobs, server):
        number, args = json.loads(data)
        signal.setitimer(signal.ITIMER_PROF, deadline)
        outcome = _run(check, args)
        signal.setitimer(signal.ITIMER_PROF, 0)
        jobs.send(encode(Finished(number, *outcome)))
        jobs.receive()
    os._exit(0)


def _peek(jobs: Channel, server: int) -> bytes:
    """The next job; none once the server has died, which no end of file would say: the pool keeps its end open."""
    poll = select.poll()
    poll.register(jobs, select.POLLIN)
    while not poll.poll(LOOK * 1000):
        if os.getppid() != server:
            return b""
    return jobs.peek()


def _run(check: Check, args: list[str | None]) -> tuple[str, str]:
    """The outcome of one call; an exception means that the expressions cannot be compared."""
    try:
        return check(*args)
    except Exception as error:
        return "unparsable", type(error).__name__


def _drain(jobs: Channel) -> list[int]:
    """Take all jobs out of a channel and return their numbers."""
    numbers = []
    while jobs.has_message():
        numbers.append(json.loads(jobs.receive())[0])
    return numbers
