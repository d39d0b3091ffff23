"""A log of one JSON object per line that never loses or repeats a step.

A line is on disk before `append` returns. A torn last line (the process died while writing it) is not a line: readers
pass over it and the next writer removes it. Damage anywhere else is an error, never a gap.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.rundir.files import plain, sync, telling, write_all


@dataclass(frozen=True, slots=True)
class Log:
    """A file of records, each with a `step` one higher than the last."""

    path: Path

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record and bring it to the disk; numbers that are not finite become null."""
        mark, step = self.mark(), record["step"]
        if mark["last"] is not None and step != mark["last"] + 1:
            message = f"{self.path.name} ends at step {mark['last']}: step {step} cannot follow"
            raise RunDirError(message, fix="go on with `agon train RUN --resume`")
        line = json.dumps(plain(dict(record)), separators=(",", ":")) + "\n"
        with telling(f"step {step} was not written to {self.path.name}"):
            self._put(line.encode(), mark["bytes"])

    def mark(self) -> dict[str, Any]:
        """Where the log stands: bytes in whole lines, and the last step (None when it is empty)."""
        lines = self._lines()
        last = _record(lines[-1]) if lines else None
        return {"bytes": sum(map(len, lines)), "last": last["step"] if last else None}

    def records(self) -> list[dict[str, Any]]:
        """Every whole record, in order."""
        return self._parse(self._lines())

    def rewind(self, mark: Mapping[str, Any] | None) -> None:
        """Cut everything after `mark` (None: everything); a log that no longer reaches back there is refused."""
        mark = mark or {"bytes": 0, "last": None}
        kept = self._bytes()[: mark["bytes"]]
        if not self._reaches(kept, mark):
            fix = f"restore {self.path} from a copy, or start a new run under another --name"
            raise RunDirError(f"{self.path.name} lacks steps before the checkpoint's, {mark['last']}", fix=fix)
        if self.path.exists():
            with telling(f"{self.path.name} was not cut"):
                self._put(b"", mark["bytes"])

    def _reaches(self, kept: bytes, mark: Mapping[str, Any]) -> bool:
        """True when `kept` is whole lines, one for each step up to the mark's."""
        if len(kept) != mark["bytes"] or not kept.endswith(b"\n" if kept else b""):
            return False
        steps = [record["step"] for record in self._parse(kept.splitlines())]
        last = steps[-1] if steps else None
        return last == mark["last"] and steps == list(range(steps[0], steps[0] + len(steps)) if steps else [])

    def _bytes(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def _lines(self) -> list[bytes]:
        """Whole lines with their ends; the last may be torn at its front too, if blocks reach the disk out of order."""
        data = self._bytes()
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        return lines[:-1] if lines and _record(lines[-1]) is None else lines

    def _parse(self, lines: list[bytes]) -> list[dict[str, Any]]:
        records = []
        for number, line in enumerate(lines, 1):
            if (record := _record(line)) is None:
                fix = f"restore {self.path} from a copy; the checkpoints beside it are not touched by this"
                raise RunDirError(f"{self.path.name} line {number} is damaged", fix=fix)
            records.append(record)
        return records

    def _put(self, data: bytes, at: int) -> None:
        """Cut the file at `at`, then add the bytes and sync; what fails half-way is taken back."""
        new = not self.path.exists()
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.ftruncate(fd, at)
            write_all(fd, data)
            os.fsync(fd)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to tell; a torn line is no line
                os.ftruncate(fd, at)
            raise
        finally:
            os.close(fd)
        if new:
            sync(self.path.parent)


def _record(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None when it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("step"), int) else None
