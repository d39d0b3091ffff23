"""Files that survive a crash: written atomically, on disk when the function returns, by one process at a time.

Every change that Agon makes to a run directory goes through these few functions, so that a test can kill the process,
or cut the power, after each single one of them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agon.errors import AgonError, InputError, RunDirError, RunError

RESUME = "make room or repair the disk, then resume with `agon train RUN --resume`"
RUN_AGAIN = "make room or repair the disk, then run the same command again"
TEMPORARY = ".tmp-"
ASIDE = ".old-"
PRIVATE = 0o770
"""Mode of a folder with prompts and answers: closed to other users, and open to the group as far as the umask says."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=+-]{0,127}")


@contextlib.contextmanager
def errors_as(what: str, caught: type[Exception], raised: type[AgonError], fix: str) -> Iterator[None]:
    """Turn an error into one that says what was not done and what to do."""
    try:
        yield
    except caught as error:
        raise raised(f"{what}: {error}", fix=fix) from error


def disk_errors_as(what: str, fix: str = RESUME) -> contextlib.AbstractContextManager[None]:
    """Turn an error of the disk into one that says what was not done and what to do."""
    return errors_as(what, OSError, RunError, fix)


NO_FOLDER = "make that folder first, or name one that exists"
NOT_YOURS = "choose a place that you may write to"
PLACE = {errno.ENOENT: NO_FOLDER, errno.ENOTDIR: NO_FOLDER} | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS), NOT_YOURS
)
"""What to do about an error that is about the place, not about the disk."""


@contextlib.contextmanager
def output_errors_as(what: str) -> Iterator[None]:
    """Turn an error of writing where the user said into one with advice about the place, or else about the disk."""
    try:
        yield
    except OSError as error:
        fix = PLACE.get(error.errno or 0)
        raise (InputError if fix else RunError)(f"{what}: {error.strerror or error}", fix=fix or RUN_AGAIN) from error


def check_plain(path: Path) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe or a device may never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise RunDirError(f"{path} is neither a file nor a folder", fix="remove it, or copy the run again")


def check_no_links(paths: Iterable[Path]) -> None:
    """Refuse links and special files among what is going to be written: they could lead anywhere."""
    for path in sorted(paths):
        if path.is_symlink():
            fix = f"put the files themselves there: cp -rL {path} COPY, then move COPY in its place"
            raise RunDirError(f"{path} is a link, and would be written through", fix=fix)
        check_plain(path)


def to_json(value: Any) -> Any:
    """The value as JSON knows it: string keys, lists for tuples, None for a number that is not finite."""
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def sha256(path: Path) -> str:
    """The hash of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_hash(folder: Path) -> str | None:
    """One hash over the weights in a model's folder; None without a folder: a name on the Hub has a revision."""
    names = sorted(path.name for path in folder.glob("*.safetensors")) if folder.is_dir() else []
    sums = "".join(f"{name} {sha256(folder / name)}\n" for name in names)
    return hashlib.sha256(sums.encode()).hexdigest() if names else None


def sync(path: Path) -> None:
    """Bring one file or folder to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(folder: Path) -> None:
    """Bring every file and folder below `folder`, and `folder` itself, to the disk."""
    for path in sorted(folder.rglob("*")):
        sync(path)
    sync(folder)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, each one on disk before the next."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes: one call of `os.write` may take only some of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_new(path: Path, data: bytes) -> None:
    """Write and sync a file that does not exist yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what stands there at the end atomically takes the place of `path`."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write(path: Path, data: bytes) -> None:
    """Replace the content of a file atomically."""
    with atomic_replace(path) as temporary:
        write_new(temporary, data)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically; a number that is not finite becomes null."""
    write(path, (json.dumps(to_json(value), indent=2) + "\n").encode())


def remove_tree(folder: Path) -> None:
    """Delete a folder: first renamed out of sight, so that no half of it keeps its name."""
    if not folder.name.startswith(TEMPORARY):
        hidden = folder.with_name(f"{TEMPORARY}{folder.name}-{os.getpid()}-gone")
        folder.rename(hidden)
        sync(folder.parent)
        folder = hidden
    shutil.rmtree(folder)


@contextlib.contextmanager
def temporary_folder(temporary: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new folder to fill, removed afterwards unless it was moved."""
    temporary.mkdir(mode)
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):  # a full or broken disk has already raised the error that counts
            if temporary.exists():
                shutil.rmtree(temporary)


def swap_names(one: Path, two: Path) -> bool:
    """Swap two names atomically; False where the system cannot."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    at_fdcwd, rename_exchange = -100, 2
    return bool(renameat2(at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(two), rename_exchange) == 0)


def replace_folder(new: Path, target: Path) -> None:
    """Put the synced folder `new` in the place of `target`; a crash leaves one of them whole (see `clean_up`)."""
    if not target.exists():
        new.rename(target)
    elif swap_names(new, target):
        sync(target.parent)
        shutil.rmtree(new)
    else:
        aside = target.with_name(ASIDE + target.name)
        target.rename(aside)
        new.rename(target)
        sync(target.parent)
        remove_tree(aside)
    sync(target.parent)


def clean_up(parent: Path) -> list[str]:
    """Finish or undo what a dead process left half done in `parent`; return the names that were cleaned.

    Only the holder of the run's lock may call this: the temporary folder of a living process looks the same.
    """
    cleaned = []
    for path in sorted(parent.glob(".*")) if parent.is_dir() and not parent.is_symlink() else []:
        if path.name.startswith(ASIDE) and not (target := path.with_name(path.name[len(ASIDE) :])).exists():
            path.rename(target)
        elif path.name.startswith((ASIDE, TEMPORARY)):
            remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        else:
            continue
        cleaned.append(path.name)
    return cleaned


# -- one writer -------------------------------------------------------------------------------------------------------

_held: set[int] = set()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` for as long as the block runs; refuse at once when another process holds it.

    The lock is the kernel's (`flock`) and dies with its process, so a `kill -9` never leaves a run that cannot be
    resumed. The pid in the file is there to be read, not believed.
    """
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


def is_locked(path: Path) -> bool:
    """Whether a process holds `path`; nothing is written."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _release_in_child() -> None:
    """A forked worker closes its copies: one that outlived a killed trainer would hold the run."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)
