"""Errors of agon-lens: what happened, and what to type."""

from __future__ import annotations


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
