"""A box seen from outside: its control socket, its process, its clock. The supervisor trusts nothing that is in it.

Inputs and outputs are files in memory, passed as descriptors: the program reads and writes them without our help, so a
program that writes without end or reads nothing cannot block anyone, and its output is read when it is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from agon_judge.sandbox.cgroups import Cgroup
from agon_judge.sandbox.execution import MAX_OUTPUT, Ending, Execution, ProgramLimits, SandboxDown

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
PROCESSES = 64
"""Processes and threads of a box."""
START_SECONDS = 60.0
"""How long a box may take to start on a busy machine."""
LOOK_SECONDS = 0.1
"""How often the launcher of a box that starts is looked at."""
STARVED = 10
"""Times its wall limit after which a program that waits for a core is the machine's failure."""
STARVATION = "the machine is too busy: a program waited for a core most of the time"
PROC = Path("/proc")
CORES = os.cpu_count() or 1
DETAIL = 2_000
"""Bytes of standard error that are kept, from its end."""


class BoxDied(Exception):
    """The first process of a box is gone."""


@dataclass(frozen=True, slots=True)
class BoxUsage:
    """What a box has used so far."""

    cpu: float
    kills: int


class ProgramBox:
    """One box for one program. `root` is the process whose tree is the box; `end` kills the box and waits for it."""

    def __init__(self, link: socket.socket, cgroup: Cgroup | None, end: Callable[[], None], root: int | None) -> None:
        self._link, self._cgroup, self._end, self._root = link, cgroup, end, root
        self.pid, self.reusable, self.limits = 0, True, ProgramLimits()

    def wait_ready(self, launcher_alive: Callable[[], bool]) -> None:
        """Wait for the driver; SandboxDown if the box does not start.

        When the launcher is killed while bubblewrap starts, one of bubblewrap's two processes waits for the other
        forever and keeps the socket open: the socket alone would not tell.
        """
        deadline, words = time.monotonic() + START_SECONDS, None
        with contextlib.suppress(BoxDied):
            while words is None and time.monotonic() < deadline:
                alive = launcher_alive()
                with contextlib.suppress(TimeoutError):
                    words = self._receive(time.monotonic() + LOOK_SECONDS)
                if not alive:
                    break
        if words != ["ready"] or not self.pid:
            self.end()
            raise SandboxDown("a box did not start")

    def compile(self, source: bytes, limits: ProgramLimits, addresses: int) -> Execution | None:
        """Send the program; None if it compiles."""
        self.limits = limits
        before, started = self._usage(), time.monotonic()
        seconds = math.ceil(limits.cpu) + 1  # a backstop: the kernel counts ticks there, and may count too many
        words = f"{seconds} {PROCESSES} {addresses}"
        reply = self._ask(words, (sealed(source),), before, started)
        if reply == ["compiled"]:
            return None
        self.end()
        if isinstance(reply, Ending):
            return Execution(Ending.NOT_COMPILED, stderr=f"compilation exceeded the {reply} limit".encode())
        if reply[0] != "error":
            raise BoxDied(f"unexpected reply {reply[0][:20]!r}")
        return Execution(Ending.NOT_COMPILED, stderr=" ".join(reply[1:]).encode())

    def run(self, data: bytes) -> Execution:
        """Run the program on one input."""
        files = sealed(data), os.memfd_create("out"), os.memfd_create("err")
        out, err = os.dup(files[1]), os.dup(files[2])
        before, started = self._usage(), time.monotonic()
        try:
            reply = self._ask("test", files, before, started)
            wall, after = time.monotonic() - started, self._usage()
            if isinstance(reply, Ending):
                self.end()
            used = BoxUsage(after.cpu - before.cpu, after.kills - before.kills)
            return self._execution(reply, read(out), read(err), wall, used)
        finally:
            os.close(out)
            os.close(err)

    def end(self) -> None:
        """Kill everything in the box and wait until it is gone."""
        self.reusable = False
        self._end()
        self._link.close()

    def _execution(self, reply: list[str] | Ending, out: bytes, err: bytes, wall: float, used: BoxUsage) -> Execution:
        """Put together what is known of a run; what the kernel counted decides before what the program returned."""
        if isinstance(reply, Ending):
            return Execution(reply, -signal.SIGKILL, out[:MAX_OUTPUT], tail(err), used.cpu, wall)
        try:
            status, microseconds, peak, clean = map(int, reply[1:])
            code = os.waitstatus_to_exitcode(status)
        except ValueError as error:  # without a namespace, a program can speak for its driver
            raise BoxDied("unexpected reply") from error
        self.reusable = bool(clean) and (self._root is None or descendants(self._root) == [self.pid])
        cpu = microseconds / 1e6
        ending = Ending.EXITED
        if used.kills or (code == 1 and err.rstrip().endswith(b"MemoryError")):
            ending = Ending.MEMORY
        elif max(len(out), len(err)) > MAX_OUTPUT:
            ending = Ending.OUTPUT
        elif cpu > self.limits.cpu or code == -signal.SIGXCPU:
            ending = Ending.CPU
        return Execution(ending, code, out[:MAX_OUTPUT], tail(err), cpu, wall, peak * 1024)

    def _ask(self, words: str, fds: tuple[int, ...], before: BoxUsage, started: float) -> list[str] | Ending:
        """Send a message and wait for its reply, while the limits hold."""
        try:
            socket.send_fds(self._link, [words.encode()], fds)
        except OSError as error:
            raise BoxDied from error
        finally:
            for fd in fds:
                os.close(fd)
        return self._watch(before, started)

    def _watch(self, before: BoxUsage, started: float) -> list[str] | Ending:
        used = waited = 0.0
        idle = longest_wait([self.pid])
        while True:
            # no limit can be reached before this, even if every core works for the box
            rest = started + self.limits.wall + waited - time.monotonic()
            pause = max(0.005, min((self.limits.cpu - used) / CORES, rest))
            try:
                return self._receive(time.monotonic() + pause)
            except BoxDied:
                if self._usage().kills == before.kills:
                    raise
                return Ending.MEMORY  # the kernel may choose the driver when the box runs out of memory
            except TimeoutError:
                pass  # nothing yet: look at the limits
            used = self._usage().cpu - before.cpu
            if used > self.limits.cpu:
                return Ending.CPU
            if rest <= pause:
                below = set(descendants(self._root or self.pid)) - {self.pid}
                waited = longest_wait([self.pid]) - idle + longest_wait(below)  # it compiles, then they run
                elapsed = time.monotonic() - started
                if elapsed - waited >= self.limits.wall:
                    return Ending.WALL
                if elapsed > STARVED * self.limits.wall:
                    raise SandboxDown(STARVATION, fix="let fewer programs run at once (workers), or run less beside it")

    def _receive(self, deadline: float) -> list[str]:
        """One message; TimeoutError after the deadline."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        try:
            data, ancillary, _, _ = self._link.recvmsg(4096, socket.CMSG_SPACE(12))
        except ConnectionError as error:
            raise BoxDied from error
        if not data:
            raise BoxDied
        for _, kind, payload in ancillary:
            if kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("3i", payload[:12])[0]
        return data.decode(errors="replace").split() or [""]

    def _usage(self) -> BoxUsage:
        if self._cgroup is not None:
            return BoxUsage(self._cgroup.cpu(), self._cgroup.kills())
        return BoxUsage(tree_cpu(self._root or self.pid), 0)


def sealed(data: bytes) -> int:
    """A file in memory that nobody can change."""
    fd = os.memfd_create("in", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def read(fd: int) -> bytes:
    """What a program wrote, and one byte more than it may write where it wrote too much."""
    return os.pread(fd, MAX_OUTPUT + 1, 0)


def tail(data: bytes) -> bytes:
    return data[-DETAIL:]


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process, of its descendants, and of those that they have waited for."""
    ticks = 0
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):
            stat = (PROC / str(one) / "stat").read_bytes()
            ticks += sum(map(int, stat.rpartition(b")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def longest_wait(pids: Iterable[int]) -> float:
    """Seconds that a thread of these processes was ready to run and had no core; the most of all."""
    waits = [0]
    for one in pids:
        with contextlib.suppress(OSError):
            waits += [int(file.read_text().split()[1]) for file in (PROC / str(one) / "task").glob("*/schedstat")]
    return max(waits) / 1e9


def descendants(pid: int) -> list[int]:
    """Process ids below a process, as far as they can be seen."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            for file in (PROC / str(one) / "task").glob("*/children"):
                waiting += (below := list(map(int, file.read_text().split())))
                found += below
    return found
