"""The bouts of an evaluation: one JSON line per bout in the columns of `bouts/`, resumable after a kill.

A line is written by one call, so that a killed evaluation leaves at most one torn line. A bout is named by problem and
index: a resumed evaluation draws those that are missing, and no others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.errors import RunDirError
from agon.formatting import utf8
from agon.rundir.bouts import bout_of, row
from agon.rundir.files import disk_errors_as, sync
from agon.rundir.jsonl import append, parse, whole_lines
from agon.types import Bout

Key = tuple[str, int]


def key(bout: Bout) -> Key:
    """What names a bout of an evaluation: its problem and its index."""
    return bout.problem.id, bout.draft.index


@dataclass(frozen=True, slots=True)
class BoutLog:
    """A file of one system's bouts."""

    path: Path

    def read(self) -> dict[Key, Bout]:
        """Every complete bout by name, in the order they were written; of two with one name the first counts."""
        bouts: dict[Key, Bout] = {}
        for number, line in enumerate(whole_lines(self.path), 1):
            bout = self._bout(line, number)
            bouts.setdefault(key(bout), bout)
        return bouts

    def append(self, bouts: Sequence[Bout], system: str) -> None:
        """Add bouts in one call."""
        data = "".join(_line(bout, system) for bout in bouts).encode()
        with disk_errors_as(f"a bout was not written to {self.path.name}"):
            append(self.path, data)

    def truncate(self) -> None:
        """Cut a torn last line; only the one process that writes may call this."""
        if self.path.exists():
            os.truncate(self.path, sum(map(len, whole_lines(self.path))))

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self.path.exists():
            sync(self.path)

    def _bout(self, line: bytes, number: int) -> Bout:
        try:
            return bout_of(parse(line) or {})
        except (ValueError, TypeError, KeyError) as error:
            fix = f"delete that line of {self.path}: its bout is drawn again"
            raise RunDirError(f"{self.path.name} line {number} is damaged", fix=fix) from error


def _line(bout: Bout, system: str) -> str:
    values = row(bout, system=system)
    if bout.other_peek is not None:
        values["other_peek"] = utf8(bout.other_peek)
    for stage, rollout in zip(("draft", "challenge"), bout.rollouts, strict=False):
        values[f"{stage}_seconds"] = rollout.seconds
    return json.dumps({name: value for name, value in values.items() if value is not None}, ensure_ascii=False) + "\n"
