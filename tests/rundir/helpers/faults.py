"""A disk that fails on purpose: at its k-th change the process dies, the power goes, or an error comes back.

Every call by which Python changes a file system is counted. `kill` ends the process before the k-th change, a write
half done. After a power cut, what was never synced is gone: in `eager` mode names are on disk and unsynced contents are
not; in `lazy` mode names that no sync of their folder covered are undone as well. `fsync` itself is not carried out.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agon.rundir import files

CHANGES = ("open", "write", "sendfile", "fsync", "rename", "replace", "mkdir", "unlink", "remove", "rmdir", "ftruncate")
STRUCK = 99


class Disk:
    """Counts changes below `root` and strikes at change number `at`."""

    def __init__(self, root: Path, at: int | None = None, strike: Callable[[Disk], None] | None = None) -> None:
        self.root, self.at, self.strike = root, at, strike
        self.changes: list[str] = []
        self.real = {name: getattr(os, name) for name in CHANGES}
        self.synced = {path.stat().st_ino: path.stat().st_size for path in root.rglob("*")}
        self.undo: list[tuple[int, Callable[[], None]]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[Disk]:
        """Count, and strike, inside this block."""
        swap = files.swap_names
        try:
            for name in CHANGES:
                setattr(os, name, getattr(self, f"_{name}", None) or self._counted(name))
            files.swap_names = lambda one, two: self._exchange(swap, one, two)
            yield self
        finally:
            for name, call in self.real.items():
                setattr(os, name, call)
            files.swap_names = swap

    def _change(self, name: str) -> None:
        self.changes.append(name)
        if self.strike and len(self.changes) - 1 == self.at:
            self.strike(self)

    def _counted(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._change(name)
            return self.real[name](*args, **kwargs)

        return call

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        new = flags & os.O_CREAT and dir_fd is None and not os.path.lexists(path)
        if flags & os.O_CREAT:
            self._change("open")
        fd: int = self.real["open"](path, flags, mode, dir_fd=dir_fd)
        if new:
            self._made(Path(path))
        return fd

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._change("mkdir")
        self.real["mkdir"](path, mode, dir_fd=dir_fd)
        self._made(Path(path))

    def _made(self, path: Path) -> None:
        parent = self.real["open"](path.parent, os.O_RDONLY)

        def unmake() -> None:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(path.name, dir_fd=parent).st_mode):
                    shutil.rmtree(path.name, dir_fd=parent)
                else:
                    self.real["unlink"](path.name, dir_fd=parent)

        self.undo.append((os.fstat(parent).st_ino, unmake))

    def _write(self, fd: int, data: Any) -> int:
        if len(self.changes) == self.at:
            self.real["write"](fd, bytes(data)[: len(data) // 2])
        self._change("write")
        return int(self.real["write"](fd, data))

    def _fsync(self, fd: int) -> None:
        self._change("fsync")
        status = os.fstat(fd)
        self.synced[status.st_ino] = status.st_size
        self.undo = [(folder, unmake) for folder, unmake in self.undo if folder != status.st_ino]

    def _rename(self, source: Any, target: Any) -> None:
        self._change("rename")
        self.real["rename"](source, target)
        folder = Path(target).parent.stat().st_ino
        self.undo.append((folder, lambda: self.real["rename"](target, source)))

    def _exchange(self, swap: Callable[[Path, Path], bool], one: Path, two: Path) -> bool:
        self._change("exchange")
        done = swap(one, two)
        if done:
            self.undo.append((two.parent.stat().st_ino, lambda: [swap(one, two), None][1]))
        return done

    def lose_contents(self) -> None:
        """Cut every file below the root to what its last sync covered."""
        for path in self.root.rglob("*"):
            status = path.stat()
            if path.is_file() and status.st_size > self.synced.get(status.st_ino, 0):
                os.truncate(path, self.synced.get(status.st_ino, 0))

    def lose_names(self) -> None:
        """Take back, newest first, what no sync of the folder has covered."""
        for _, unmake in reversed(self.undo):
            unmake()


def kill(disk: Disk) -> None:
    os._exit(STRUCK)


def eager(disk: Disk) -> None:
    disk.lose_contents()
    os._exit(STRUCK)


def lazy(disk: Disk) -> None:
    disk.lose_contents()
    disk.lose_names()
    os._exit(STRUCK)


def failing(code: int) -> Callable[[Disk], None]:
    """A strike that raises an error of the disk, once."""

    def strike(disk: Disk) -> None:
        raise OSError(code, os.strerror(code))

    return strike


def in_child(work: Callable[[Callable[[str], None]], None], disk: Disk) -> list[str]:
    """Run `work` in a forked process on the failing disk; return what it acknowledged before it ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            with disk.watching():
                work(lambda word: (disk.real["write"](theirs, f"{word}\n".encode()), None)[1])
        except BaseException as error:
            disk.real["write"](2, f"in the child: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as told:
        words = told.read().split()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, STRUCK):
        raise AssertionError(f"the child ended with {code}")
    return words
