"""A log of one record per step that never loses or repeats a step: a line is on disk before `append` returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from agon.errors import RunDirError
from agon.rundir.files import disk_errors_as, to_json
from agon.rundir.jsonl import append, parse, whole_lines
from agon.rundir.records import Mark, StepRecord, Timing

R = TypeVar("R", StepRecord, Timing)


@dataclass(frozen=True, slots=True)
class StepLog(Generic[R]):
    """A file of records, each with a `step` one higher than the last."""

    path: Path
    model: type[R]

    def append(self, record: R) -> None:
        """Write one record and bring it to the disk; numbers that are not finite become null."""
        mark = self.mark()
        if mark.last is not None and record.step != mark.last + 1:
            message = f"{self.path.name} ends at step {mark.last}: step {record.step} cannot follow"
            raise RunDirError(message, fix="resume with `agon train RUN --resume`")
        line = json.dumps(to_json(record.model_dump(mode="json")), separators=(",", ":")) + "\n"
        with disk_errors_as(f"step {record.step} was not written to {self.path.name}"):
            append(self.path, line.encode(), at=mark.bytes)

    def mark(self) -> Mark:
        """Where the log stands: bytes in whole lines, and the last step (None when it is empty)."""
        lines = self._lines()
        return Mark(bytes=sum(map(len, lines)), last=_step(lines[-1]) if lines else None)

    def records(self) -> list[R]:
        """Every whole record, in order."""
        return [self._record(number, line) for number, line in enumerate(self._lines(), 1)]

    def rewind(self, mark: Mark) -> None:
        """Cut everything after `mark`; a log that no longer reaches back there is refused."""
        kept = b"".join(whole_lines(self.path))[: mark.bytes]
        if not self._reaches(kept, mark):
            fix = f"restore {self.path} from a copy, or start a new run under a different --name"
            raise RunDirError(f"{self.path.name} lacks steps before the checkpoint's, {mark.last}", fix=fix)
        if self.path.exists():
            with disk_errors_as(f"{self.path.name} was not cut"):
                append(self.path, b"", at=mark.bytes)

    def _reaches(self, kept: bytes, mark: Mark) -> bool:
        """True when `kept` is whole lines, one for each step up to the mark's."""
        if len(kept) != mark.bytes or not kept.endswith(b"\n" if kept else b""):
            return False
        steps = self._steps(kept.splitlines())
        last = steps[-1] if steps else None
        return last == mark.last and list(steps) == list(range(steps[0], steps[0] + len(steps)) if steps else [])

    def _steps(self, lines: Sequence[bytes]) -> list[int]:
        steps = []
        for number, line in enumerate(lines, 1):
            if (step := _step(line)) is None:
                raise self._damaged(number)
            steps.append(step)
        return steps

    def _lines(self) -> list[bytes]:
        """Whole lines; the last may be torn at its front too, if blocks reach the disk out of order."""
        lines = whole_lines(self.path)
        return lines[:-1] if lines and _step(lines[-1]) is None else lines

    def _record(self, number: int, line: bytes) -> R:
        try:
            return self.model.model_validate(parse(line))
        except ValidationError as error:
            raise self._damaged(number) from error

    def _damaged(self, number: int) -> RunDirError:
        fix = f"restore {self.path} from a copy; the checkpoints beside it are not touched by this"
        return RunDirError(f"{self.path.name} line {number} is damaged", fix=fix)


def _step(line: bytes) -> int | None:
    """The step of a line; None when it is not a record."""
    step = (parse(line) or {}).get("step")
    return step if isinstance(step, int) else None
