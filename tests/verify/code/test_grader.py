from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from agon.sandbox import Ending, Execution, ProgramLimits, SandboxDown
from agon.types import Problem, Reason
from agon.verify.code.grader import CodeVerifier, limits_of, tolerance_of
from agon.verify.code.known import completion_of

MIB = 1 << 20


def problem(**meta: object) -> Problem:
    return Problem("p", "Double it.", "", {"tests": [["1", "2"], ["2", "4"]], **meta})


class Doubling:
    """A fake sandbox that doubles numbers and counts; `faults` calls fail first."""

    def __init__(self, faults: int = 0) -> None:
        self.faults, self.programs = faults, 0
        self.limits: list[ProgramLimits] = []

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        self.programs += 1
        self.limits.append(limits)
        for data in inputs:
            if self.faults:
                self.faults -= 1
                raise SandboxDown("gone")
            out = b"%d" % (2 * int(data)) if "2 *" in program else b"0"
            yield Execution(Ending.EXITED, stdout=out)

    def describe(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


RIGHT, WRONG = completion_of("print(2 * int(input()))"), completion_of("print(0)")


def test_a_failure_of_the_machine_is_never_a_wrong_answer() -> None:
    with CodeVerifier(Doubling(faults=2)) as verifier:
        assert verifier.verify_many([(problem(), RIGHT)])[0].correct
    with CodeVerifier(Doubling(faults=99)) as verifier:
        verdict = verifier.verify_many([(problem(), WRONG)])[0]
        assert (verdict.reason, verdict.graded) == (Reason.INFRA, False)
        assert verifier.counters["infra"] == 1


def test_a_failure_of_the_machine_is_not_remembered() -> None:
    room = Doubling(faults=3)
    with CodeVerifier(room) as verifier:
        assert verifier.verify_many([(problem(), RIGHT)])[0].reason is Reason.INFRA
        assert verifier.verify_many([(problem(), RIGHT)])[0].correct


def test_a_verdict_is_remembered_by_program_tests_and_limits() -> None:
    room = Doubling()
    with CodeVerifier(room) as verifier:
        for row in ((problem(), RIGHT), (problem(), RIGHT), (problem(), WRONG), (problem(time_limit=9.0), RIGHT)):
            verifier.verify_many([row])
        other = Problem("p", "", "", {"tests": [["1", "2"], ["3", "6"]]})
        verifier.verify_many([(other, RIGHT)])
        assert (room.programs, verifier.counters["cached"]) == (4, 1)


def test_the_verdict_names_the_test_that_failed_and_not_its_output() -> None:
    with CodeVerifier(Doubling()) as verifier:
        verdict = asyncio.run(verifier(problem(), WRONG))
    assert verdict.reason is Reason.WRONG_OUTPUT
    assert verdict.detail == "test 1 of 2: token 1 of 1 differs"


@pytest.mark.parametrize("tests", [None, [], [["1", ""]], [["1", " "]]])
def test_a_problem_without_usable_tests_is_masked(tests: object) -> None:
    with CodeVerifier(Doubling()) as verifier:
        verdict = verifier.verify_many([(Problem("p", "", "", {"tests": tests}), RIGHT)])[0]
    assert (verdict.reason, verdict.graded) == (Reason.BAD_GOLD, False)


@pytest.mark.parametrize(
    ("meta", "cpu", "memory"),
    [
        ({}, 4.0, 512),
        ({"time_limit": 1.5, "memory_limit": 1024 * MIB}, 3.0, 1024),
        ({"time_limit": 0.1, "memory_limit": 64 * MIB}, 1.0, 256),
        ({"time_limit": 1e9, "memory_limit": 1 << 50}, 60.0, 2048),
        ({"time_limit": -1, "memory_limit": 0}, 4.0, 512),
        ({"time_limit": None, "memory_limit": None}, 4.0, 512),
    ],
)
def test_limits_are_the_problems_times_the_factor(meta: dict[str, object], cpu: float, memory: int) -> None:
    limits = limits_of(problem(**meta), 2.0)
    assert (limits.cpu, limits.memory) == (cpu, memory * MIB)
    assert limits.wall > 2 * limits.cpu


def test_a_tolerance_is_the_problems_own() -> None:
    assert tolerance_of(problem()) is None
    assert tolerance_of(problem(tolerance=1e-6)) == 1e-6
    assert tolerance_of(problem(tolerance=5)) is None
