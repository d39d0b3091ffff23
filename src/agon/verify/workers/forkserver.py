"""The process in which verifier workers are born: it imports math-verify once and forks a worker in milliseconds.

It runs nothing but this file's loop, so it cannot hang. The parent asks it over a socket to fork a worker (with the
worker's own socket attached) or to kill one; it reports births and deaths. Only it reaps workers, so a process id is
never killed by mistake. When the parent dies, by whatever means, the nursery and all workers die with it.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from typing import Any, NoReturn

MESSAGE = 1 << 20
PR_SET_PDEATHSIG = 1

Judge = Callable[..., tuple[str, str]]


def main(fd: int, function: str, memory: int) -> None:
    """Serve the parent on `fd`; workers call `function` ("package.module:name") and may use `memory` bytes."""
    control = socket.socket(fileno=fd)
    parent = os.getppid()
    module, _, name = function.partition(":")
    home = importlib.import_module(module)
    judge: Judge = getattr(home, name)
    getattr(home, "warm", lambda: None)()
    gc.collect()
    gc.freeze()
    Nursery(control, parent, judge, memory).serve()


class Nursery:
    """The loop between the parent's wishes and the children's deaths."""

    def __init__(self, control: socket.socket, parent: int, judge: Judge, memory: int) -> None:
        self.control, self.parent, self.judge, self.memory = control, parent, judge, memory
        self.children: set[int] = set()
        self.died, notify = os.pipe()
        os.set_blocking(self.died, False)
        os.set_blocking(notify, False)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> NoReturn:
        """Until the parent is gone; its death is seen as an end of file, or as a new parent id."""
        self.say(ready=True)
        while os.getppid() == self.parent:
            readable, _, _ = select.select([self.control.fileno(), self.died], [], [], 1.0)
            if self.died in readable:
                os.read(self.died, 4096)
            self.reap()
            if self.control.fileno() in readable and not self.obey():
                break
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        while self.children:
            self.children.discard(os.waitpid(-1, 0)[0])
        os._exit(0)

    def say(self, **message: Any) -> None:
        """Tell the parent; if it has gone, the end of file is what ends the loop."""
        with contextlib.suppress(OSError):
            self.control.send(json.dumps(message).encode())

    def obey(self) -> bool:
        """One wish of the parent; False at the end of file."""
        data, fds, _, _ = socket.recv_fds(self.control, MESSAGE, 1)
        if not data:
            return False
        wish = json.loads(data)
        if "fork" in wish:
            self.fork(wish["fork"], fds[0])
        elif wish["kill"] in self.children:
            os.kill(wish["kill"], signal.SIGKILL)
        return True

    def fork(self, number: int, fd: int) -> None:
        pid = os.fork()
        if pid == 0:
            self.control.close()
            work(socket.socket(fileno=fd), self.judge, self.memory)
        os.close(fd)
        self.children.add(pid)
        self.say(born=number, pid=pid)

    def reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.children.discard(pid)
            self.say(dead=pid, status=os.waitstatus_to_exitcode(status))


def work(jobs: socket.socket, judge: Judge, memory: int) -> NoReturn:
    """A worker: one message in, one message out, until the parent hangs up."""
    _confine(memory)
    jobs.send(json.dumps({"hello": time.process_time()}).encode())
    while message := jobs.recv(MESSAGE):
        outcome, detail = _answer(judge, json.loads(message))
        jobs.send(json.dumps({"outcome": outcome, "detail": detail, "cpu": time.process_time()}).encode())
    os._exit(0)


def _confine(memory: int) -> None:
    nursery = os.getppid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(5_000)


def _answer(judge: Judge, args: list[Any]) -> tuple[str, str]:
    """What the function says; an exception of its own is an expression that cannot be compared."""
    try:
        return judge(*args)
    except Exception as error:
        return "unparsable", type(error).__name__
