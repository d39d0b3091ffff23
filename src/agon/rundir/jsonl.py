"""Files of one JSON object per line that a crash can shorten by at most one line.

A torn last line (the process died while writing it) is not a line: readers skip it and the next writer removes it.
Damage anywhere else is an error, never a gap.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from agon.rundir.files import check_plain, sync, write_all


def whole_lines(path: Path) -> list[bytes]:
    """The complete lines of a file, with their ends; none where there is no file."""
    check_plain(path)
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1].splitlines(keepends=True)


def parse(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None when it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def append(path: Path, data: bytes, at: int | None = None) -> None:
    """Add bytes in one call. With `at`, cut the file there first and sync; what fails half-way is taken back."""
    new = not path.exists()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        if at is not None:
            os.ftruncate(fd, at)
        write_all(fd, data)
        if at is not None:
            os.fsync(fd)
    except OSError:
        if at is not None:
            with contextlib.suppress(OSError):  # the first error is the one to report; a torn line is skipped
                os.ftruncate(fd, at)
        raise
    finally:
        os.close(fd)
    if new and at is not None:
        sync(path.parent)
