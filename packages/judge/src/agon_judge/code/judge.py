"""The code judge: a program, run in a sandbox on tests, compared outside (docs/sandbox.md).

A program is right only if it passes every test. The limits are those of the tests, multiplied by `time_factor`, because
they were set for other machines and mostly for faster languages. A verdict depends on the program, the tests and the
limits alone and is remembered; a failure of the machine is `infra`, is not remembered, and is never a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from itertools import chain

from agon_judge.cache import Cache
from agon_judge.judge import Judge
from agon_judge.sandbox.execution import MIB, ProgramLimits, Sandbox, SandboxDown
from agon_judge.sandbox.grade import run
from agon_judge.sandbox.leaks import checked_sandbox
from agon_judge.sandbox.settings import SandboxSettings
from agon_judge.unit_tests import UnitTests, unusable
from agon_judge.verdict import Reason, Verdict

Row = tuple[str | Verdict, UnitTests]
"""A program (or why there is none) and its tests."""

USUAL_SECONDS = 2.0
SHORTEST, LONGEST = 1.0, 60.0
"""CPU seconds per test, when the tests give none; and the least and the most, after the factor."""
USUAL_MEMORY, LEAST_MEMORY, MOST_MEMORY = 512 * MIB, 256 * MIB, 2048 * MIB
"""Bytes, likewise; an interpreter alone takes what some tests allow."""
TRIES = 3


class CodeJudge(Judge):
    """Judges Python programs. `threads` wait for the sandbox, which decides how many programs run.

    Without a sandbox a bubblewrap sandbox is opened, probed, and refused if a probe leaks. `close` closes it.
    """

    def __init__(
        self, sandbox: Sandbox | None = None, *, time_factor: float = 2.0, threads: int = 128, cache: int = 100_000
    ) -> None:
        self._sandbox = sandbox or checked_sandbox(SandboxSettings())
        self._time_factor = time_factor
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="agon-code")
        self._verdicts: Cache[Verdict] = Cache(cache)
        self._rows = self._cached = self._runs = self._infra = 0

    def judge(self, program: str | Verdict, tests: UnitTests) -> Verdict:
        """The verdict on one program."""
        self._rows += 1
        if flaw := flaw_of(tests):
            return Verdict(Reason.BAD_GOLD, flaw)
        if isinstance(program, Verdict):
            return program
        limits = limits_of(tests, self._time_factor)
        key = _key(program, tests, limits)
        known = self._verdicts.get(key)
        if known is not None:
            self._cached += 1
            return known
        failure = ""
        for _ in range(TRIES):
            self._runs += 1
            try:
                verdict = run(program, tests.cases, limits=limits, tolerance=tests.tolerance, sandbox=self._sandbox)
            except SandboxDown as error:
                failure = error.message
                continue
            self._verdicts.put(key, verdict)
            return verdict
        self._infra += 1
        return Verdict(Reason.INFRA, failure[:200])

    async def judge_async(self, program: str | Verdict, tests: UnitTests) -> Verdict:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.judge, program, tests)

    def judge_many(self, rows: Iterable[Row]) -> list[Verdict]:
        return [future.result() for future in [self._threads.submit(self.judge, *row) for row in rows]]

    def self_test(self) -> list[str]:
        from agon_judge.code.known import failures

        return failures(self)

    @property
    def counters(self) -> dict[str, int]:
        return {"rows": self._rows, "cached": self._cached, "programs": self._runs, "infra": self._infra}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._sandbox.close()


def limits_of(tests: UnitTests, time_factor: float) -> ProgramLimits:
    """The limits on this machine. Wall time is only for programs that sleep: it allows twice the CPU time."""
    cpu = min(max((tests.time_limit or USUAL_SECONDS) * time_factor, SHORTEST), LONGEST)
    memory = min(max(tests.memory_limit or USUAL_MEMORY, LEAST_MEMORY), MOST_MEMORY)
    return ProgramLimits(cpu, 2 * cpu + 1, memory)


@lru_cache(maxsize=4096)
def flaw_of(tests: UnitTests) -> str:
    """Why tests cannot judge any program; empty if they can. Found once: tests can be large."""
    return unusable(tests.cases)


@lru_cache(maxsize=4096)
def _digest(tests: UnitTests) -> bytes:
    return _hash(repr(tests.tolerance), *chain(*tests.cases))


def _key(program: str, tests: UnitTests, limits: ProgramLimits) -> bytes:
    return _hash(program, repr(asdict(limits)), _digest(tests).hex())


def _hash(*texts: str) -> bytes:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
