"""Grades a program: runs it on each test's input, compares outside the box, and stops at the first test that fails."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from agon.errors import InputError
from agon.sandbox.execution import MAX_OUTPUT, Ending, Execution, ProgramLimits, Sandbox, SandboxDown
from agon.sandbox.leaks import checked_sandbox
from agon.sandbox.settings import SandboxSettings
from agon.sandbox.tokens import first_difference, same_output


class Case(NamedTuple):
    """One test: what the program reads, and what it must write."""

    stdin: str
    stdout: str


class GradeReason(StrEnum):
    """Why a grade is what it is."""

    CORRECT = "correct"
    WRONG_OUTPUT = "wrong_output"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    COMPILE_ERROR = "compile_error"


@dataclass(frozen=True, slots=True)
class Grade:
    """The result of a program on its tests. `failed` is the index of the first test that failed, if one did."""

    reason: GradeReason
    detail: str = ""
    failed: int | None = None
    tests_run: int = 0
    cpu: float = 0.0

    @property
    def correct(self) -> bool:
        return self.reason is GradeReason.CORRECT


_LIMITS = {
    Ending.CPU: GradeReason.TIME_LIMIT,
    Ending.WALL: GradeReason.TIME_LIMIT,
    Ending.MEMORY: GradeReason.MEMORY_LIMIT,
    Ending.OUTPUT: GradeReason.OUTPUT_LIMIT,
    Ending.NOT_COMPILED: GradeReason.COMPILE_ERROR,
}


def run(
    program: str,
    tests: Iterable[tuple[str, str]],
    *,
    limits: ProgramLimits | None = None,
    tolerance: float | None = None,
    sandbox: Sandbox | None = None,
) -> Grade:
    """Grade a Python program on tests, each an input and the output it must give.

    Without `sandbox` a bubblewrap sandbox is opened and probed once, and kept until the process ends; one that leaks is
    refused. Raises SandboxDown when the machine fails: that says nothing about the program.
    """
    cases = [Case(*test) for test in tests]
    if flaw := unusable(cases):
        raise InputError(flaw, fix="leave the test out")
    inputs, spent = [case.stdin.encode(errors="surrogatepass") for case in cases], 0.0
    executions = (sandbox or _default()).execute(program, inputs, limits or ProgramLimits())
    with closing(executions):  # type: ignore[type-var]
        for index, case in enumerate(cases):
            execution = next(executions, None)
            if execution is None:
                raise SandboxDown(f"the sandbox ran {index} of {len(cases)} tests", fix="run: agon sandbox check")
            spent += execution.cpu
            reason, detail = judge(case, execution, tolerance)
            if reason is not GradeReason.CORRECT:
                return Grade(reason, detail, index, index + 1, spent)
    return Grade(GradeReason.CORRECT, tests_run=len(cases), cpu=spent)


def judge(case: Case, execution: Execution, tolerance: float | None) -> tuple[GradeReason, str]:
    """Grade one run. The exit code alone is never enough: the output must be complete and the expected one."""
    error = last_line(execution.stderr)
    if reason := _LIMITS.get(execution.ending):
        return reason, error if reason is GradeReason.COMPILE_ERROR else f"exceeded the {execution.ending} limit"
    if not execution.finished:
        return GradeReason.RUNTIME_ERROR, error or f"exit code {execution.exit_code}"
    expected = case.stdout.encode(errors="surrogatepass")
    if not same_output(expected, execution.stdout, tolerance):
        return GradeReason.WRONG_OUTPUT, first_difference(expected, execution.stdout)
    return GradeReason.CORRECT, ""


def last_line(stderr: bytes) -> str:
    """What a program said last on standard error, without characters that a terminal would obey."""
    text = stderr.decode(errors="replace").strip().split("\n")[-1][:200]
    return "".join(char if char.isprintable() else "?" for char in text)


def unusable(cases: Sequence[Case]) -> str:
    """Why tests cannot grade any program; empty if they can."""
    if not cases:
        return "there are no tests"
    if not any(case.stdout.split() for case in cases):
        return "every expected output is empty: a program that does nothing would pass"
    largest = max(len(case.stdout.encode(errors="surrogatepass")) for case in cases)
    return f"an expected output has over {MAX_OUTPUT:,} bytes" if largest > MAX_OUTPUT else ""


_lock = threading.Lock()
_shared: list[Sandbox] = []


def _default() -> Sandbox:
    with _lock:
        if not _shared:
            _shared.append(checked_sandbox(SandboxSettings()))
            atexit.register(_shared[0].close)
        return _shared[0]
