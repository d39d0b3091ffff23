"""The code verifier: one program, run in a sandbox on the problem's tests, compared outside (docs/sandbox.md).

r(x, y) is 1 only if the program passes every test. The problem's own limits hold, multiplied by `time_factor`, because
they were set for other machines and mostly for faster languages. A verdict depends on the program, the tests and the
limits alone and is remembered; a failure of the machine is `infra`, is not remembered, and is never a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import chain

from agon.errors import VerifierError
from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.sandbox.execution import MIB, ProgramLimits, Sandbox, SandboxDown
from agon.sandbox.grade import Case, Grade, run, unusable
from agon.types import Completion, Problem, Reason, Verdict
from agon.verify.code.extract import NoProgram, program_of
from agon.verify.math.verifier import Cache

USUAL_SECONDS = 2.0
SHORTEST, LONGEST = 1.0, 60.0
"""CPU seconds per test, when the problem gives none; and the least and the most, after the factor."""
USUAL_MEMORY, LEAST_MEMORY, MOST_MEMORY = 512 * MIB, 256 * MIB, 2048 * MIB
"""Bytes, likewise; an interpreter alone takes what some problems allow."""
TRIES = 3


class CodeVerifier(Verifier):
    """Grades the programs in completions. `threads` wait for the sandbox, which decides how many programs run."""

    def __init__(self, sandbox: Sandbox, *, time_factor: float = 2.0, threads: int = 32, cache: int = 100_000) -> None:
        self._sandbox, self._time_factor = sandbox, time_factor
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="agon-code")
        self._grades: Cache[Grade] = Cache(cache)
        self._rows = self._cached = self._runs = self._infra = 0

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._judge, problem, completion)

    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        return [future.result() for future in [self._threads.submit(self._judge, *pair) for pair in pairs]]

    def self_test(self) -> list[str]:
        from agon.verify.code.known import failures

        return failures(self)

    @property
    def counters(self) -> dict[str, int]:
        return {"rows": self._rows, "cached": self._cached, "programs": self._runs, "infra": self._infra}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._sandbox.close()

    def _judge(self, problem: Problem, completion: Completion) -> Verdict:
        self._rows += 1
        formed = well_formed(completion)
        cases = cases_of(problem)
        if flaw := unusable(cases):
            return Verdict(False, formed, Reason.BAD_GOLD, flaw)
        program = program_of(completion)
        if isinstance(program, NoProgram):
            return Verdict(False, formed, Reason.NO_PROGRAM, program.why)
        try:
            grade = self._grade(program, cases, limits_of(problem, self._time_factor), tolerance_of(problem))
        except SandboxDown as error:
            self._infra += 1
            return Verdict(False, formed, Reason.INFRA, error.message[:200])
        where = "" if grade.failed is None else f"test {grade.failed + 1} of {len(cases)}: "
        return Verdict(grade.correct, formed, Reason(grade.reason.value), f"{where}{grade.detail}"[:200])

    def _grade(self, program: str, cases: Sequence[Case], limits: ProgramLimits, tolerance: float | None) -> Grade:
        """The grade of a program, remembered; tried again when the machine fails."""
        key = _key(program, cases, limits, tolerance)
        if known := self._grades.get(key):
            self._cached += 1
            return known
        for attempt in range(TRIES):
            self._runs += 1
            try:
                grade = run(program, cases, limits=limits, tolerance=tolerance, sandbox=self._sandbox)
            except SandboxDown:
                if attempt == TRIES - 1:
                    raise
                continue
            self._grades.put(key, grade)
            return grade
        raise VerifierError("unreachable: the last try returns or raises")


def cases_of(problem: Problem) -> list[Case]:
    """The tests in a problem's meta, as (input, output)."""
    tests = problem.meta.get("tests")
    if not isinstance(tests, Sequence):
        return []
    return [Case(str(test[0]), str(test[1])) for test in tests]


def limits_of(problem: Problem, time_factor: float) -> ProgramLimits:
    """The problem's limits on this machine. Wall time is only for programs that sleep: it allows twice the CPU time."""
    seconds, memory = problem.meta.get("time_limit"), problem.meta.get("memory_limit")
    cpu = (seconds if isinstance(seconds, int | float) and seconds > 0 else USUAL_SECONDS) * time_factor
    cpu = min(max(cpu, SHORTEST), LONGEST)
    size = memory if isinstance(memory, int) and memory > 0 else USUAL_MEMORY
    return ProgramLimits(cpu, 2 * cpu + 1, min(max(size, LEAST_MEMORY), MOST_MEMORY))


def tolerance_of(problem: Problem) -> float | None:
    """How far a number may be off, where the problem says so."""
    tolerance = problem.meta.get("tolerance")
    return float(tolerance) if isinstance(tolerance, int | float) and 0 < tolerance < 1 else None


def _key(program: str, cases: Sequence[Case], limits: ProgramLimits, tolerance: float | None) -> bytes:
    digest = hashlib.sha256()
    for text in chain([program, repr(asdict(limits)), repr(tolerance)], *cases):
        data = text.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
