"""The verdict on one answer: a reason and a detail. Every judge returns it, and it is never a float."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a verdict is what it is."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    AMBIGUOUS = "ambiguous"
    UNPARSABLE = "unparsable"
    TIMEOUT = "timeout"
    NO_PROGRAM = "no_program"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    WRONG_OUTPUT = "wrong_output"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    BAD_GOLD = "bad_gold"
    INFRA = "infra"


UNGRADED = frozenset({Reason.BAD_GOLD, Reason.INFRA})
"""Reasons that say nothing about the answer: such a row is masked, never scored as wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Right, wrong, or no verdict (`graded` is False), with the reason."""

    reason: Reason
    detail: str = ""

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a truth value; read .correct or .graded")

    @property
    def correct(self) -> bool:
        return self.reason is Reason.CORRECT

    @property
    def graded(self) -> bool:
        """False when the gold or the machine is at fault rather than the answer."""
        return self.reason not in UNGRADED


def printable(text: str) -> str:
    """A text without characters that a terminal would obey or that cannot be seen."""
    return "".join(char if char.isprintable() else "?" for char in text)
