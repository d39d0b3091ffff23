"""Every error that the judge raises on purpose, and what to do about it.

JudgeError         exit 1: a judge that cannot work; carries `fix`, the sentence that says what to type next
|-- InputError     exit 2: an argument, or a machine that lacks something; nothing was started
`-- SandboxDown    the machine failed, not the program: a box that does not start, a server that does not answer
"""

from __future__ import annotations

import re


class JudgeError(Exception):
    """The command prints two lines, what happened and `fix`; a traceback ends with both, as Python would be typed."""

    exit_code = 1

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix
        self.__notes__ = [f"fix: {in_python(fix)}"] if fix else []


class InputError(JudgeError):
    exit_code = 2


class SandboxDown(JudgeError):
    pass


def in_python(advice: str) -> str:
    """Options of a command as arguments: `--gold COLUMN` is `gold=COLUMN`, a switch is `form=True`."""
    return re.sub(r"--(\w+)(?: ([A-Z]+\b|'.*'))?", lambda option: f"{option[1]}={option[2] or True}", advice)


def install(*extras: str) -> str:
    """The command that installs the judge with these extras: from the clone that this is, else by name."""
    from pathlib import Path

    in_clone = (Path(__file__).resolve().parents[2] / "pyproject.toml").exists()
    return (
        f"pip install {'-e ' if in_clone else ''}'{'packages/judge' if in_clone else 'agon-judge'}[{','.join(extras)}]'"
    )
