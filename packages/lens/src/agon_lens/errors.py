"""Errors of agon-lens: what happened, where, and what to type."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

MALFORMED = (TypeError, AttributeError, KeyError, IndexError, ValueError, RecursionError)
"""What a reader raises on a value that is not of the type its writer gives it."""


class LensError(Exception):
    """A log, an option or a place that cannot be used. Commands print `message` and `fix` and exit with `exit_code`; a
    traceback in Python ends with both."""

    exit_code = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix
        if fix:
            self.add_note(f"fix: {fix}")


class WriteError(LensError):
    """The disk failed while a page was written."""

    exit_code = 1


class Place(NamedTuple):
    """Where a row stands. As a context it says so of whatever is wrong with the row."""

    file: Path | None
    line: int | str
    writer: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else f"row {self.line}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LensError):
            raise LensError(f"{self}: {error.message}", fix=error.fix) from error
        if isinstance(error, MALFORMED):
            what = f"a row as {self.writer} writes it" if self.writer else "a row of a log"
            raise LensError(f"{self}: not {what}: {error}", fix="repair that row, or leave it out") from error
