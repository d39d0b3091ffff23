"""Logs: one JSON object per line, in files that a crash can shorten by at most one line.

A torn last line (the process died while writing it) is not a line: readers skip it and the next writer removes it.
Damage anywhere else is an error, never a gap. A run logs steps: each is on disk before `append` returns. An evaluation
logs bouts, named by problem and index: a resumed one draws those that are missing, and no others.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from agon.errors import RunDirError
from agon.formatting import utf8
from agon.rundir.bouts import bout_of, row
from agon.rundir.files import check_plain, disk_errors_as, sync, to_json, write_all
from agon.rundir.records import Mark, StepRecord, Timing
from agon.types import Bout

Key = tuple[str, int]
R = TypeVar("R", StepRecord, Timing)
T = TypeVar("T")


def parse(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None when it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Log:
    """A file of JSON objects."""

    path: Path

    def lines(self) -> list[bytes]:
        """The whole lines, with their ends. The last may be torn at its front too: blocks reach a disk in any order."""
        check_plain(self.path)
        data = self.path.read_bytes() if self.path.exists() else b""
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        return lines[:-1] if lines and parse(lines[-1]) is None else lines

    def read_as(self, make: Callable[[dict[str, Any]], T], fix: str) -> list[T]:
        """What `make` makes of every object, in order."""
        made = []
        for number, line in enumerate(self.lines(), 1):
            try:
                made.append(make(parse(line) or {}))
            except (ValueError, TypeError, KeyError) as error:
                raise RunDirError(f"{self.path.name} line {number} is damaged", fix=fix) from error
        return made

    def write(self, objects: Iterable[Mapping[str, Any]], what: str, at: int | None = None) -> None:
        """Add objects in one call. With `at`, cut the file there first and sync; what fails half-way is taken back."""
        texts = (json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":")) + "\n" for value in objects)
        data, new = "".join(texts).encode(), not self.path.exists()
        with disk_errors_as(f"{what} was not written to {self.path.name}"):
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
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
                sync(self.path.parent)


@dataclass(frozen=True, slots=True)
class StepLog(Log, Generic[R]):
    """Records, each with a `step` one higher than the last."""

    model: type[R]

    def append(self, record: R) -> None:
        """Write one record and bring it to the disk; numbers that are not finite become null."""
        mark = self.mark()
        if mark.last is not None and record.step != mark.last + 1:
            message = f"{self.path.name} ends at step {mark.last}: step {record.step} cannot follow"
            raise RunDirError(message, fix="resume with `agon train RUN --resume`")
        self.write([record.model_dump(mode="json")], f"step {record.step}", at=mark.bytes)

    def mark(self) -> Mark:
        """Where the log stands: bytes in whole lines, and the last step (None when it is empty)."""
        lines = self.lines()
        return Mark(bytes=sum(map(len, lines)), last=_step(lines[-1]) if lines else None)

    def records(self) -> list[R]:
        """Every record, in order."""
        fix = f"restore {self.path} from a copy; the checkpoints beside it are not touched by this"
        return self.read_as(self.model.model_validate, fix)

    def rewind(self, mark: Mark) -> None:
        """Cut everything after `mark`; a log that no longer has each step up to it is refused."""
        kept = b"".join(self.lines())[: mark.bytes]
        steps = [_step(line) for line in kept.splitlines()]
        expected = [] if mark.last is None else [mark.last - n for n in reversed(range(len(steps)))]
        if len(kept) < mark.bytes or (kept and not kept.endswith(b"\n")) or steps != expected:
            fix = f"restore {self.path} from a copy, or start a new run under a different --name"
            raise RunDirError(f"{self.path.name} lacks steps before the checkpoint's, {mark.last}", fix=fix)
        if self.path.exists():
            self.write([], "the end of the checkpoint's steps", at=mark.bytes)


def _step(line: bytes) -> int | None:
    step = (parse(line) or {}).get("step")
    return step if isinstance(step, int) else None


def key(bout: Bout) -> Key:
    """What names a bout of an evaluation: its problem and its index."""
    return bout.problem.id, bout.draft.index


class BoutLog(Log):
    """The bouts of one system, in the columns of `bouts/` without those that are null."""

    def read(self) -> dict[Key, Bout]:
        """Every bout by name, in the order they were written; of two with one name the first counts."""
        bouts = self.read_as(bout_of, f"delete that line of {self.path}: its bout is drawn again")
        found: dict[Key, Bout] = {}
        for bout in bouts:
            found.setdefault(key(bout), bout)
        return found

    def append(self, bouts: Sequence[Bout], system: str) -> None:
        """Add bouts in one call."""
        self.write((_columns(bout, system) for bout in bouts), "a bout")

    def truncate(self) -> None:
        """Cut a torn last line; only the one process that writes may call this."""
        if self.path.exists():
            os.truncate(self.path, sum(map(len, self.lines())))

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self.path.exists():
            sync(self.path)


def _columns(bout: Bout, system: str) -> dict[str, Any]:
    values = row(bout, system=system)
    if bout.other_peek is not None:
        values["other_peek"] = utf8(bout.other_peek)
    for stage, rollout in zip(("draft", "challenge"), bout.rollouts, strict=False):
        values[f"{stage}_seconds"] = rollout.seconds
    return {name: value for name, value in values.items() if value is not None}
