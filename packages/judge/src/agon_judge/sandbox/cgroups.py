"""One cgroup per slot: bounds the memory and the processes of a whole box, and measures its CPU time.

Version 1 (`memory`, `pids` and `cpuacct`, each in a tree of its own) and version 2 (one tree). A slot's cgroup is made
below our own where that is allowed, so that the limits set on us still hold for it, else at the top of the tree.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/sys/fs/cgroup")
OURS = Path("/proc/self/cgroup")
PREFIX = "agon-"
CONTROLLERS = ("memory", "pids", "cpuacct")
REMOVE_SECONDS = 5.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Files:
    """The file names of one version."""

    memory: str
    swap: str
    processes: str
    kills: str
    usage: str


_V1 = Files("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "memory.oom_control", "cpuacct.usage")
_V2 = Files("memory.max", "memory.swap.max", "pids.max", "memory.events", "cpu.stat")


class Cgroup:
    """The cgroup of one slot; `folders` by controller, which are all the same in version 2."""

    def __init__(self, folders: dict[str, Path], processes: int) -> None:
        self._folders = folders
        self._files = _V1 if len(set(folders.values())) > 1 else _V2
        self._memory = 0
        try:
            for folder in set(folders.values()):
                folder.mkdir()
            self._write("pids", self._files.processes, processes)
            self.kills(), self.cpu()
        except OSError:
            self.remove()
            raise

    @property
    def version(self) -> int:
        return 1 if self._files is _V1 else 2

    @property
    def members(self) -> list[str]:
        """The files that a process writes to in order to join."""
        return [str(folder / "cgroup.procs") for folder in dict.fromkeys(self._folders.values())]

    def limit_memory(self, size: int) -> None:
        """Bound the memory of everything in the cgroup, swap included."""
        if size == self._memory:
            return
        growing = size > self._memory > 0
        swap = size if self._files is _V1 else 0
        for name, value in sorted(((self._files.memory, size), (self._files.swap, swap)), reverse=growing):
            with contextlib.suppress(FileNotFoundError) if name == self._files.swap else contextlib.nullcontext():
                self._write("memory", name, value)
        self._memory = size

    def kills(self) -> int:
        """How often the kernel killed a process for want of memory."""
        words = self._read("memory", self._files.kills).split()
        return int(words[words.index("oom_kill") + 1])

    def cpu(self) -> float:
        """CPU seconds of everything that ever ran in the cgroup."""
        text = self._read("cpuacct", self._files.usage)
        return int(text) / 1e9 if self._files is _V1 else int(text.split()[1]) / 1e6

    def processes(self) -> list[int]:
        """Process ids in the cgroup now."""
        return [int(pid) for pid in self._read("pids", "cgroup.procs").split()]

    def remove(self) -> None:
        """Kill what is left in the cgroup and delete it."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while any(folder.exists() for folder in self._folders.values()):
            with contextlib.suppress(OSError):
                for pid in self.processes():
                    os.kill(pid, signal.SIGKILL)
            for folder in set(self._folders.values()):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _read(self, controller: str, name: str) -> str:
        return (self._folders[controller] / name).read_text()

    def _write(self, controller: str, name: str, value: int) -> None:
        (self._folders[controller] / name).write_text(str(value))


def make(processes: int, mounts: Path = MOUNTS, ours: Path = OURS) -> Cgroup | None:
    """A new cgroup in the first place where it may be made; None if there is no such place."""
    name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
    for parents in places(mounts, ours):
        _sweep(parents)
        try:
            return Cgroup({controller: folder / name for controller, folder in parents.items()}, processes)
        except (OSError, ValueError):
            continue
    return None


def places(mounts: Path = MOUNTS, ours: Path = OURS) -> list[dict[str, Path]]:
    """Where cgroups may be made, by controller: first below our own, then at the top."""
    lines = [line.split(":", 2) for line in ours.read_text().splitlines()] if ours.exists() else []
    paths = {name: path.strip("/") for _, names, path in lines for name in names.split(",")}
    if (mounts / "cgroup.controllers").exists():
        own, top = mounts / paths.get("", ""), mounts
        return [dict.fromkeys(CONTROLLERS, folder) for folder in dict.fromkeys((own, top)) if _delegate(folder)]
    own_v1 = {name: mounts / name / paths.get(name, "") for name in CONTROLLERS}
    top_v1 = {name: mounts / name for name in CONTROLLERS}
    return [place for place in (own_v1, top_v1) if all(os.access(folder, os.W_OK) for folder in place.values())]


def _delegate(folder: Path) -> bool:
    """Turn on the controllers for the children of a cgroup of version 2; whether they are on."""
    switch = folder / "cgroup.subtree_control"
    wanted = {"memory", "pids"}
    with contextlib.suppress(OSError):
        if not wanted <= set(switch.read_text().split()):
            switch.write_text("+memory +pids")
        return wanted <= set(switch.read_text().split()) and os.access(folder, os.W_OK)
    return False


def _sweep(parents: dict[str, Path]) -> None:
    """Delete cgroups of supervisors that were killed; one with processes in it cannot be deleted."""
    for folder in set(parents.values()):
        for old in folder.glob(f"{PREFIX}*-*"):
            owner = old.name.removeprefix(PREFIX).split("-")[0]
            if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
                with contextlib.suppress(OSError):
                    old.rmdir()
