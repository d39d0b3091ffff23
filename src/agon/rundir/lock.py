"""One writer per run directory.

The lock is the kernel's (`flock`): it dies with its process, so a `kill -9` never leaves a run that cannot be resumed,
and the pid in the file is there to be read, not believed. Forked workers let go of it, or an orphan would hold a dead
run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from agon.errors import RunDirError

_held: set[int] = set()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` for as long as the block runs; refuse at once when another process holds it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        fix = f"check that {path.parent} exists and that you may write there"
        raise RunDirError(f"cannot lock {path.parent}: {error.strerror}", fix=fix) from error
    try:
        _take(fd, path)
        _held.add(fd)
        yield
    finally:
        _held.discard(fd)
        os.close(fd)


def _take(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        fix = f"wait for process {pid} or stop it (kill {pid}), then resume; or start a run under a different --name"
        raise RunDirError(f"{path.parent} is in use by process {pid}", fix=fix) from error
    except OSError as error:
        reason = "its file system has no locks" if error.errno in {errno.ENOSYS, errno.ENOTSUP} else error.strerror
        raise RunDirError(f"cannot lock {path.parent}: {reason}", fix="put runs on a local disk or NFS 4") from error
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only its pid cannot be read
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def _let_go() -> None:
    """In a forked child: close the copies; the parent keeps the lock."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
