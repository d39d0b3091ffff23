"""Grades a program: runs it on each test's input, compares outside the box, and stops at the first test that fails."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from contextlib import closing

from agon_judge.errors import InputError
from agon_judge.sandbox.execution import Ending, Execution, ProgramLimits, Sandbox, SandboxDown
from agon_judge.sandbox.leaks import checked_sandbox
from agon_judge.sandbox.settings import SandboxSettings
from agon_judge.sandbox.tokens import first_difference, same_output
from agon_judge.unit_tests import unusable
from agon_judge.verdict import Reason, Verdict, printable

SHOWN = 60
"""Characters of the input of a failed test that a verdict quotes."""
_LIMITS = {
    Ending.CPU: Reason.TIME_LIMIT,
    Ending.WALL: Reason.TIME_LIMIT,
    Ending.MEMORY: Reason.MEMORY_LIMIT,
    Ending.OUTPUT: Reason.OUTPUT_LIMIT,
    Ending.NOT_COMPILED: Reason.COMPILE_ERROR,
}


def run(
    program: str,
    tests: Iterable[tuple[str, str]],
    *,
    limits: ProgramLimits | None = None,
    tolerance: float | None = None,
    sandbox: Sandbox | None = None,
) -> Verdict:
    """The verdict on a Python program from tests, each an input and the output it must give.

    Its detail names the test that failed and the beginning of its input, never the expected output. Without `sandbox` a
    bubblewrap sandbox is opened and probed once, and kept until the process ends; one that leaks is refused. Raises
    SandboxDown when the machine fails: that says nothing about the program.
    """
    cases = [*tests]
    if not all(isinstance(case, tuple | list) and len(case) == 2 for case in cases):
        raise InputError("a test is an input and an output", fix='give pairs of text: [("1", "2"), ("21", "42")]')
    if flaw := unusable(cases):
        raise InputError(flaw, fix="leave the test out")
    inputs = [given.encode(errors="surrogatepass") for given, _ in cases]
    executions = (sandbox or _default()).execute(program, inputs, limits or ProgramLimits())
    with closing(executions):  # type: ignore[type-var]
        for number, (given, expected) in enumerate(cases, 1):
            execution = next(executions, None)
            if execution is None:
                raise SandboxDown(f"the sandbox ran {number - 1} of {len(cases)} tests", fix=CHECK)
            verdict = compare(expected, execution, tolerance)
            if not verdict.correct:
                start = printable(" ".join(given[: 4 * SHOWN].split()))
                shown = start if len(start) <= SHOWN else f"{start[: SHOWN - 3]}..."
                where = f" (input: {shown})" if shown else ""
                return Verdict(verdict.reason, f"test {number} of {len(cases)}: {verdict.detail}{where}"[:200])
    return Verdict(Reason.CORRECT)


def compare(expected: str, execution: Execution, tolerance: float | None = None) -> Verdict:
    """The verdict on one run. The exit code alone is never enough: the output must be complete and the expected one."""
    error = printable(execution.stderr.decode(errors="replace").strip().split("\n")[-1][:200])
    if reason := _LIMITS.get(execution.ending):
        compiled = reason is not Reason.COMPILE_ERROR
        return Verdict(reason, f"exceeded the {execution.ending} limit" if compiled else error)
    if not execution.finished:
        return Verdict(Reason.RUNTIME_ERROR, error or f"exit code {execution.exit_code}")
    wanted = expected.encode(errors="surrogatepass")
    if not same_output(wanted, execution.stdout, tolerance):
        return Verdict(Reason.WRONG_OUTPUT, first_difference(wanted, execution.stdout))
    return Verdict(Reason.CORRECT)


CHECK = "run: agon-judge sandbox check"
_lock = threading.Lock()
_shared: list[Sandbox] = []


def _default() -> Sandbox:
    with _lock:
        if not _shared:
            _shared.append(checked_sandbox(SandboxSettings()))
            atexit.register(_shared[0].close)
        return _shared[0]
