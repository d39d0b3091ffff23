"""The sandboxes of this machine: `bwrap` and `landlock` differ in how a launcher starts a box.

    bwrap       namespaces, read-only root, filter, cgroup or rlimits, a uid of its own if we are root
    landlock    no namespaces: reads limited by Landlock, nothing writable, the same filter; orphans are hunted down

A pool of slots, a few more than programs run at once, so that the next box has started when it is needed. A box that
dies while it runs a program is replaced, and the run is repeated: its result depends on the program alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from agon_judge.errors import InputError, install
from agon_judge.sandbox import cgroups
from agon_judge.sandbox.boxes import PROCESSES, START_SECONDS, BoxDied, ProgramBox
from agon_judge.sandbox.bwrap import command, find_interpreter, python_command, system_folders
from agon_judge.sandbox.execution import (
    LEAST_MEMORY,
    MAX_PROGRAM,
    MIB,
    MOST_MEMORY,
    Backend,
    Ending,
    Execution,
    Memory,
    ProgramLimits,
    SandboxDown,
)
from agon_judge.sandbox.launcher import CONTROL
from agon_judge.sandbox.slots import Launch, Slot
from agon_judge.sandbox.syscalls import filter_code

UIDS = 1000
"""Uids of one supervisor."""
FEW = range(60706, 61184)
"""Uids of all supervisors where there are only 65,536: those that systemd's table calls unused."""
OVERHEAD = 24 * MIB
"""Memory of the launcher and of the driver, which is not the program's."""
TRIES = 3
NO_CGROUP = "no writable memory cgroup here: a program could take the memory of the machine with many processes"
PER_PROCESS = (
    "start as root, or inside `systemd-run --user --scope -p Delegate=yes`; or accept a limit for each process alone: "
    "--memory per_process (in a config: sandbox.memory: per_process)"
)


class HostSandbox:
    """Runs programs in boxes on this machine. `workers` is how many may run at once."""

    def __init__(self, backend: Backend = "bwrap", *, memory: Memory = "cgroup", workers: int | None = None) -> None:
        self.backend, self.memory = backend, memory
        self.workers = workers or len(os.sched_getaffinity(0))
        self._launch = plan_launch(backend)
        self._slots: list[Slot] = []
        self._free: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        self._lock, self._closed = threading.Lock(), False
        self._limit = threading.BoundedSemaphore(self.workers)
        try:
            self._fill(self.workers + 1 + self.workers // 2)
        except BaseException:
            self.close()
            raise

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        source = program.encode(errors="surrogatepass")
        if len(source) > MAX_PROGRAM:
            yield Execution(Ending.NOT_COMPILED, stderr=f"longer than {MAX_PROGRAM:,} bytes".encode())
            return
        limits = replace(limits, memory=min(max(limits.memory, LEAST_MEMORY), MOST_MEMORY))
        with self._limit:
            session = Session(self, source, limits)
            try:
                for data in inputs:
                    execution = session.run(data)
                    yield execution
                    if execution.ending is Ending.NOT_COMPILED:
                        return
            except OSError as error:
                if self._closed:
                    raise closed() from error  # its cgroups went with it
                raise SandboxDown(f"the sandbox failed: {error}", fix="run: agon-judge sandbox check") from error
            finally:
                session.close()

    def describe(self) -> dict[str, str]:
        slot = self._slots[0]
        isolated = self.backend == "bwrap"
        return {
            "backend": self.backend,
            "uid": f"{self._launch.uid} and up, one per slot" if self._launch.uid else "the user's own",
            "namespaces": "user, mount, process, network, IPC, host name, cgroup" if isolated else "none",
            "files": FILES[self.backend],
            "system calls": "allow-list",
            "memory": f"cgroup v{slot.cgroup.version}, whole box" if slot.cgroup else "per process",
            "workers": str(self.workers),
        }

    @property
    def uids(self) -> range:
        """The uids of the slots; empty where they have the user's own."""
        return range(self._launch.uid, self._launch.uid + UIDS) if self._launch.uid else range(0)

    @property
    def slots(self) -> int:
        return len(self._slots)

    def processes(self) -> list[int]:
        """Process ids of the launchers."""
        return [slot.pid for slot in self._slots]

    def cpu(self) -> float:
        """CPU seconds of all launchers and boxes so far; 0 without cgroups."""
        return sum(slot.cgroup.cpu() for slot in self._slots if slot.cgroup)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            slots, self._slots = self._slots, []
        self._free.put(None)
        with contextlib.ExitStack() as stack:  # one that cannot be closed keeps no other from it
            for slot in slots:
                stack.callback(slot.close)

    def take(self) -> Slot:
        """A slot whose box is started or starting."""
        slot = self._free.get()
        if self._closed or slot is None:
            self._free.put(None)
            raise closed()
        return slot

    def give_back(self, slot: Slot, *, broken: bool = False) -> None:
        """End the slot's box and prepare the next one; a broken slot is replaced."""
        try:
            slot.end_box()
            if not broken and not self._closed:
                slot.prepare()
        except (SandboxDown, OSError):
            broken = True
        if broken and not self._closed:
            slot = self._replace(slot)
        self._free.put(slot)

    def _fill(self, count: int) -> None:
        for number in range(count):
            self._slots.append(self._slot(number))
        for slot in self._slots:
            slot.wait_up()
            slot.prepare()
            self._free.put(slot)

    def _slot(self, number: int) -> Slot:
        cgroup = cgroups.make(PROCESSES + 8) if self.memory == "cgroup" else None
        if cgroup is None and self.memory == "cgroup":
            raise InputError(NO_CGROUP, fix=PER_PROCESS)
        uid = self._launch.uid + number % UIDS if self._launch.uid else None
        members = cgroup.members if cgroup else []
        try:
            return Slot(replace(self._launch, uid=uid, cgroups=members), cgroup, number)
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise

    def _replace(self, slot: Slot) -> Slot:
        """A new slot in the place of a broken one; the broken one itself where none can be made, for the next try."""
        slot.close()
        try:
            new = self._slot(slot.number)
        except (OSError, InputError):
            return slot
        with self._lock:
            if slot not in self._slots:  # the sandbox was closed meanwhile
                new.close()
                return slot
            self._slots[self._slots.index(slot)] = new
        with contextlib.suppress(SandboxDown):  # whoever takes it meets the same failure
            new.wait_up()
            new.prepare()
        return new


FILES = {
    "bwrap": "system folders read-only, 64 MiB in memory",
    "landlock": "system folders read-only (names, sizes and times elsewhere are visible), nothing writable",
}


def closed() -> SandboxDown:
    return SandboxDown("the sandbox is closed", fix="open a new one")


def plan_launch(backend: Backend) -> Launch:
    """How boxes of a backend are started; its uid is that of the first slot."""
    interpreter = find_interpreter()
    uid = first_uid(os.getpid()) if os.getuid() == 0 else None
    code = filter_code(CONTROL).hex()
    if backend == "landlock":
        if find_spec("py_landlock") is None:
            raise InputError("the landlock backend needs py-landlock", fix=install("sandbox"))
        folders = [*system_folders(interpreter), "/bin", "/lib", "/lib64"]
        return Launch("landlock", python_command(interpreter, ""), code, folders, uid)
    return Launch("bwrap", command(interpreter), code, uid=uid)


def first_uid(supervisor: int, table: Path = Path("/proc/self/uid_map")) -> int:
    """The first uid of a supervisor's slots: shared with no other supervisor where there are uids enough.

    A container may have 65,536: then 59 for each of a few supervisors.
    """
    first = (1 << 30) + supervisor % 100_000 * UIDS
    spans = [tuple(map(int, line.split())) for line in table.read_text().splitlines()]
    if any(start <= first and first + UIDS <= start + count for start, _, count in spans):
        return first
    if not any(start <= FEW.start and FEW.stop <= start + count for start, _, count in spans):
        raise InputError(
            "root has no other uid here, and programs must not run as root: this user namespace maps too few",
            fix="start it as a user outside of this namespace, or map 65,536 uids into it (a container's default)",
        )
    return FEW.start + supervisor % 8 * 59


class Session:
    """One program in one box after the other: a new one when the last is used up or has died."""

    def __init__(self, sandbox: HostSandbox, source: bytes, limits: ProgramLimits) -> None:
        self._sandbox, self._source, self._limits = sandbox, source, limits
        self._slot: Slot | None = None
        self._box: ProgramBox | None = None

    def run(self, data: bytes) -> Execution:
        """Run the program on one input, again if its box dies."""
        running, died = False, 0
        for _ in range(TRIES + self._sandbox.slots):
            try:
                refused = self._open()
                running = self._box is not None
                execution = refused or self._box.run(data)  # type: ignore[union-attr]
            except BoxDied:
                died += self._slot is not None and self._slot.alive
                self.close()
                if died == TRIES:
                    return self._blame(running)
                continue
            if self._box is not None and not self._box.reusable:
                self.close()
            return execution
        raise SandboxDown(
            "launchers of boxes are killed again and again", fix="look for what kills them, then try again"
        )

    def close(self) -> None:
        """End the box and give its slot back."""
        slot, self._slot, self._box = self._slot, None, None
        if slot is not None:
            self._sandbox.give_back(slot, broken=not slot.alive)

    def _open(self) -> Execution | None:
        """Have a box with the compiled program; an Execution if it does not compile."""
        if self._box is not None:
            return None
        box = self._ready_box()
        assert self._slot is not None
        addresses = self._limits.memory  # of each process, where nothing counts what all of them use
        if self._slot.cgroup is not None:
            self._slot.cgroup.limit_memory(self._limits.memory + OVERHEAD)
            addresses *= 4
        refused = box.compile(self._source, self._limits, addresses)
        if refused is None:
            self._box = box
        else:
            self.close()
        return refused

    def _ready_box(self) -> ProgramBox:
        """A box from the first slot that has one; every slot may have broken since it was last used."""
        deadline = time.monotonic() + START_SECONDS
        for attempt in itertools.count():
            self._slot = self._sandbox.take()
            try:
                return self._slot.open()
            except SandboxDown:
                slot, self._slot = self._slot, None
                self._sandbox.give_back(slot, broken=True)
                if attempt > self._sandbox.slots or time.monotonic() > deadline:
                    raise
        raise AssertionError("the loop ends with a box or an error")

    def _blame(self, running: bool) -> Execution:
        """Say who is at fault when a box died several times in a row.

        A source can crash the compiler, and without a process namespace a program can kill its driver. In a namespace
        it cannot: then the machine has failed.
        """
        if not running:
            return Execution(Ending.NOT_COMPILED, stderr=b"the compiler crashed")
        if self._sandbox.backend != "bwrap":
            return Execution(Ending.EXITED, -9, stderr=b"the program killed its box")
        raise SandboxDown(f"boxes died {TRIES} times in a row", fix="look for what kills them, then try again")
