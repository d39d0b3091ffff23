"""The code verifier: one program, run in a sandbox on the problem's tests, compared outside (docs/sandbox.md).

r(x, y) is 1 only if the program passes every test. The problem's own limits hold, multiplied by `time_factor`, because
they were set for other machines and mostly for faster languages. A verdict depends on the program, the tests and the
limits alone and is remembered; a failure of the machine is `infra`, is not remembered, and is never a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import chain

from agon.errors import VerifierError
from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.sandbox.execution import MIB, ProgramLimits, Sandbox, SandboxDown
from agon.sandbox.grade import Case, Grade, run, unusable
from agon.types import SUSPICIOUS, Completion, Problem, Reason, UnitTests, Verdict
from agon.verify.cache import Cache
from agon.verify.code.extract import NoProgram, program_of
from agon.verify.code.suspicion import suspicions

USUAL_SECONDS = 2.0
SHORTEST, LONGEST = 1.0, 60.0
"""CPU seconds per test, when the problem gives none; and the least and the most, after the factor."""
USUAL_MEMORY, LEAST_MEMORY, MOST_MEMORY = 512 * MIB, 256 * MIB, 2048 * MIB
"""Bytes, likewise; an interpreter alone takes what some problems allow."""
TRIES = 3
SHOWN = 60
"""Characters of the input of a failed test that a verdict quotes."""


class CodeVerifier(Verifier):
    """Grades the programs in completions. `threads` wait for the sandbox, which decides how many programs run."""

    def __init__(self, sandbox: Sandbox, *, time_factor: float = 2.0, threads: int = 128, cache: int = 100_000) -> None:
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
        tests = problem.tests or UnitTests()
        if flaw := flaw_of(tests):
            return Verdict(False, formed, Reason.BAD_GOLD, flaw)
        program = program_of(completion)
        if isinstance(program, NoProgram):
            return Verdict(False, formed, Reason.NO_PROGRAM, program.why)
        try:
            grade = self._grade(program, tests, limits_of(tests, self._time_factor))
        except SandboxDown as error:
            self._infra += 1
            return Verdict(False, formed, Reason.INFRA, error.message[:200])
        return Verdict(grade.correct, formed, Reason(grade.reason.value), grade.detail)

    def _grade(self, program: str, tests: UnitTests, limits: ProgramLimits) -> Grade:
        """The grade of a program with the detail of its verdict, remembered; tried again when the machine fails."""
        key = _key(program, tests, limits)
        if known := self._grades.get(key):
            self._cached += 1
            return known
        for attempt in range(TRIES):
            self._runs += 1
            try:
                grade = run(program, tests.cases, limits=limits, tolerance=tests.tolerance, sandbox=self._sandbox)
            except SandboxDown:
                if attempt == TRIES - 1:
                    raise
                continue
            grade = replace(grade, detail=_detail(grade, program, tests)[:200])
            self._grades.put(key, grade)
            return grade
        raise VerifierError("unreachable: the last try returns or raises")


def limits_of(tests: UnitTests, time_factor: float) -> ProgramLimits:
    """The problem's limits on this machine. Wall time is only for programs that sleep: it allows twice the CPU time."""
    cpu = min(max((tests.time_limit or USUAL_SECONDS) * time_factor, SHORTEST), LONGEST)
    memory = min(max(tests.memory_limit or USUAL_MEMORY, LEAST_MEMORY), MOST_MEMORY)
    return ProgramLimits(cpu, 2 * cpu + 1, memory)


def _detail(grade: Grade, program: str, tests: UnitTests) -> str:
    """Which test failed, on which input and how; of a right program, what is suspicious about it."""
    if grade.failed is None:
        found = suspicions(program, tests) if grade.correct else ()
        return f"{SUSPICIOUS}{', '.join(found)}" if found else grade.detail
    given = " ".join(tests.cases[grade.failed][0][: 4 * SHOWN].split())
    shown = given if len(given) <= SHOWN else f"{given[: SHOWN - 3]}..."
    return f"test {grade.failed + 1} of {len(tests.cases)}: {grade.detail}{f' (input: {shown})' if shown else ''}"


@lru_cache(maxsize=4096)
def flaw_of(tests: UnitTests) -> str:
    """Why tests cannot judge any program; empty if they can. Found once: tests can be large."""
    return unusable([Case(*case) for case in tests.cases])


@lru_cache(maxsize=4096)
def _digest(tests: UnitTests) -> bytes:
    return _hash(repr((tests.tolerance, tests.public)), *chain(*tests.cases))


def _key(program: str, tests: UnitTests, limits: ProgramLimits) -> bytes:
    return _hash(program, repr(asdict(limits)), _digest(tests).hex())


def _hash(*texts: str) -> bytes:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
