"""What runs in the processes of a pool: a fork server that imports the check once, and the workers that it forks.

The pool has one control socket per worker. Over it the server is sent the socket that a new worker is to serve, and
answers with the worker's process id at once and with its exit status when it has died. A worker's socket is its own:
nothing that it leaves half read or half written reaches the next one. When the pool's process dies, for whatever
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
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from agon_judge.workers.system import die_with_parent, limit_memory

Check = Callable[..., tuple[str, str]]
"""What a worker calls: strings in, the name and the detail of an outcome out."""
LOOK = 1.0
"""Seconds between two looks at what nothing reports."""
NUMBER = struct.Struct("i")
"""A process id or an exit status on a control socket."""


def main(parent: int, fds: list[int], check: str, deadline: float, memory: int, setup: str | None) -> NoReturn:
    """Serve the parent process on the control sockets `fds`; workers call `check`, named `package.module:function`."""
    module, _, name = check.partition(":")
    home = importlib.import_module(module)
    function: Check = getattr(home, name)
    getattr(home, "warm_up", lambda *_: None)(*([] if setup is None else [setup]))
    limit_memory(memory)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(5_000)
    gc.collect()
    gc.freeze()
    ForkServer(parent, fds, function, deadline).serve()


class ForkServer:
    """Forks workers when asked and says how they die. It runs nothing but this, so it cannot hang."""

    def __init__(self, parent: int, fds: list[int], check: Check, deadline: float) -> None:
        self.parent, self.check, self.deadline = parent, check, deadline
        self.controls = {fd: socket.socket(fileno=fd) for fd in fds}
        self.children: dict[int, socket.socket] = {}

    def serve(self) -> NoReturn:
        """Run until SIGTERM arrives or the parent is gone; then end all workers."""
        awake, waker = socket.socketpair()  # a byte for every signal, so that no death falls between two calls
        awake.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        poll = select.poll()
        for fd in (awake.fileno(), *self.controls):
            poll.register(fd, select.POLLIN)
        while os.getppid() == self.parent:
            for fd, _ in poll.poll(LOOK * 1000):
                if fd == awake.fileno():
                    awake.recv(4096)
                else:
                    self.fork(self.controls[fd])
            self.reap()
        self.end()

    def fork(self, control: socket.socket) -> None:
        """Start a worker on the socket that arrives."""
        data, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            self.end()
        pid = os.fork()
        if pid == 0:
            for each in self.controls.values():
                each.close()
            work(socket.socket(fileno=fds[0]), self.check, self.deadline)
        os.close(fds[0])
        self.children[pid] = control
        self.tell(control, pid)

    def reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.tell(self.children.pop(pid), os.waitstatus_to_exitcode(status))

    def tell(self, control: socket.socket, number: int) -> None:
        try:
            control.sendall(NUMBER.pack(number))
        except OSError:  # nobody is there any more
            self.end()

    def end(self) -> NoReturn:
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)
        os._exit(0)


def work(link: socket.socket, check: Check, deadline: float) -> NoReturn:
    """A worker: one job in, one outcome out.

    The kernel sends SIGPROF when a job has used its CPU seconds, which also ends C code that holds the GIL.
    """
    server = os.getppid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    if not die_with_parent():
        link.settimeout(LOOK)
    while os.getppid() == server and (args := receive(link, server)):
        signal.setitimer(signal.ITIMER_PROF, deadline)
        try:
            outcome = check(*args)
        except Exception as error:  # the expressions cannot be compared
            outcome = "unparsable", type(error).__name__
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(link, outcome)
    os._exit(0)


def send(link: socket.socket, message: Any) -> None:
    """One line of JSON."""
    link.sendall(json.dumps(message).encode() + b"\n")


def receive(link: socket.socket, server: int) -> Any:
    """The next line; None when the other end or the server is gone."""
    data = b""
    while not data.endswith(b"\n"):
        try:
            piece = link.recv(1 << 16)
        except TimeoutError:
            if os.getppid() != server:
                return None
            continue
        if not piece:
            return None
        data += piece
    return json.loads(data)
