"""A slot: one launcher, one cgroup, one uid, and at most one box at a time, started before it is needed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agon_judge.sandbox.boxes import START_SECONDS, ProgramBox
from agon_judge.sandbox.cgroups import Cgroup
from agon_judge.sandbox.execution import MIB, SandboxDown
from agon_judge.sandbox.launcher import RLIMIT_FILES

LAUNCHER = Path(__file__).with_name("launcher.py")
NO_NAMESPACES = (
    "allow user namespaces on this machine, or use --backend landlock, which works without them "
    "(in a config: sandbox.backend: landlock)"
)
OTHERS = {"bwrap": "landlock", "landlock": "bwrap"}
"""What to try where a backend does not start."""
RLIMITS = {
    "RLIMIT_FSIZE": 16 * MIB,
    "RLIMIT_NOFILE": RLIMIT_FILES,
    "RLIMIT_CORE": 0,
    "RLIMIT_STACK": 64 * MIB,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
}
"""The same for every program; those that depend on the program are set by the driver."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a launcher starts a box. `enter` names what it does to itself first; see launcher.py."""

    enter: str
    argv: list[str]
    filter: str
    folders: list[str] = field(default_factory=list)
    uid: int | None = None
    cgroups: list[str] = field(default_factory=list)
    rlimits: dict[str, int] = field(default_factory=lambda: dict(RLIMITS))

    @property
    def own_processes(self) -> bool:
        """Whether a box has a process namespace, so that its first process takes all others with it."""
        return self.enter == "bwrap"


class Slot:
    """Starts boxes one after the other. Used by one thread at a time."""

    def __init__(self, launch: Launch, cgroup: Cgroup | None, number: int = 0) -> None:
        self.cgroup, self.number, self._launch = cgroup, number, launch
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.settimeout(START_SECONDS)
        self._box: ProgramBox | None = None
        self._pidfd = -1
        with theirs:
            self._process = self._start(theirs.fileno())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the launcher runs. When it is killed, its box dies with it, and the program is not to blame."""
        return self._process.poll() is None

    def prepare(self) -> None:
        """Have the next box started; returns at once."""
        if self._box is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            try:
                socket.send_fds(self._link, [b"start"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise self._down() from error
        root = None if self._launch.own_processes else self._process.pid
        self._box = ProgramBox(ours, self.cgroup, self._end_box, root)

    def open(self) -> ProgramBox:
        """A box that is ready: the one that was prepared, or a new one if it has died since."""
        prepared = self._box is not None
        try:
            return self._ready_box()
        except SandboxDown:
            if not prepared:
                raise
        return self._ready_box()

    def _ready_box(self) -> ProgramBox:
        self.prepare()
        assert self._box is not None
        box = self._box
        try:
            box.wait_ready(lambda: self.alive)
            self._pidfd = os.pidfd_open(box.pid)
        except (SandboxDown, OSError) as error:
            box.end()
            raise self._down() from error
        return box

    def end_box(self) -> None:
        """End the box of the moment, if there is one."""
        if self._box is not None:
            self._box.end()

    def close(self) -> None:
        """End the launcher and its box, and delete the cgroup with whatever is left in it."""
        try:
            with contextlib.suppress(SandboxDown, OSError):
                self.end_box()
            self._link.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
            self._process.kill()
            self._process.wait()
            self._errors.close()
        finally:
            if self.cgroup is not None:
                self.cgroup.remove()

    def _start(self, fd: int) -> subprocess.Popen[bytes]:
        flags = ["-I"] if self._launch.enter == "landlock" else ["-I", "-S"]
        process = subprocess.Popen(
            [sys.executable, *flags, str(LAUNCHER), str(fd), json.dumps(asdict(self._launch))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[fd],
            env={},
            cwd="/",
            start_new_session=True,
        )
        return process

    def wait_up(self) -> None:
        """Wait until the launcher has joined its cgroup and changed its uid."""
        try:
            up = self._link.recv(16)
        except OSError:
            up = b""
        if up != b"up":
            raise self._down()

    def _end_box(self) -> None:
        self._box = None
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            # the first process of a namespace is gone only after all others
            poll = select.poll()  # select() knows no descriptor above 1,023
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(START_SECONDS * 1000)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self._launch.own_processes:
            with contextlib.suppress(OSError):
                self._link.send(b"end")
                self._link.recv(16)

    def _down(self) -> SandboxDown:
        """An error with the last line that the launcher or the box wrote."""
        last = ""
        if not self._errors.closed:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().split("\n")[-1]
        fix = (
            NO_NAMESPACES
            if "namespace" in last
            else f"use --backend {OTHERS[self._launch.enter]} (in a config: sandbox.backend)"
        )
        return SandboxDown(f"a box did not start: {last or 'no reason given'}", fix=fix)
