from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from agon.sandbox import Ending, Execution, ProgramLimits, SandboxDown
from agon.types import Problem, Reason, UnitTests
from agon.verify.code import grader
from agon.verify.code.grader import CodeVerifier, limits_of
from agon.verify.code.known import completion_of

MIB = 1 << 20


CASES = (("1", "2"), ("2", "4"))


def problem(cases: tuple[tuple[str, str], ...] = CASES, time_limit: float | None = None) -> Problem:
    return Problem("p", "Double it.", "", tests=UnitTests(cases, time_limit=time_limit))


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
        verifier.verify_many([(problem((("1", "2"), ("3", "6"))), RIGHT)])
        assert (room.programs, verifier.counters["cached"]) == (4, 1)


def test_the_verdict_names_the_test_that_failed_and_not_its_output() -> None:
    with CodeVerifier(Doubling()) as verifier:
        verdict = asyncio.run(verifier(problem(), WRONG))
    assert verdict.reason is Reason.WRONG_OUTPUT
    assert verdict.detail == "test 1 of 2: token 1 of 1 differs (input: 1)"


def test_a_long_input_is_quoted_in_part() -> None:
    with CodeVerifier(Doubling()) as verifier:
        [verdict] = verifier.verify_many([(problem((("0" * 500, "5"),)), WRONG)])
    assert len(verdict.detail) < 200
    assert verdict.detail.endswith("0...)")


def test_a_right_program_that_looks_as_if_it_cheats_is_right_and_says_so() -> None:
    with CodeVerifier(Doubling()) as verifier:
        cheat = completion_of("import os\nprint(2 * int(input()))\nos._exit(0)")
        first, *others = verifier.verify_many([(problem(), cheat), (problem(), RIGHT), (problem(), WRONG)])
    assert (first.correct, first.suspicious, first.detail) == (True, True, "suspicious: ends early")
    assert [(verdict.correct, verdict.suspicious) for verdict in others] == [(True, False), (False, False)]


def test_what_is_suspicious_about_a_program_is_remembered_with_its_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    monkeypatch.setattr(grader, "suspicions", lambda program, tests: read.append(program) or ("ends early",))
    with CodeVerifier(Doubling()) as verifier:
        verdicts = [verifier.verify_many([(problem(), RIGHT)])[0] for _ in range(3)]
    assert [verdict.detail for verdict in verdicts] == ["suspicious: ends early"] * 3
    assert len(read) == 1


def test_public_tests_are_part_of_what_a_grade_depends_on() -> None:
    cheat = completion_of("n = input()\nprint(2 * int(n) if n != '1' else 2, {'1': 2, '250': 500})")
    tests = [UnitTests((("1", "2"), ("250", "500")), public=public) for public in (1, 2)]
    with CodeVerifier(Doubling()) as verifier:
        verdicts = verifier.verify_many([(Problem("p", "", "", tests=one), cheat) for one in tests])
    assert [verdict.suspicious for verdict in verdicts] == [False, True]


@pytest.mark.parametrize("tests", [None, UnitTests(), UnitTests((("1", ""),)), UnitTests((("1", " "),))])
def test_a_problem_without_usable_tests_is_masked(tests: UnitTests | None) -> None:
    with CodeVerifier(Doubling()) as verifier:
        verdict = verifier.verify_many([(Problem("p", "", "", tests=tests), RIGHT)])[0]
    assert (verdict.reason, verdict.graded) == (Reason.BAD_GOLD, False)


@pytest.mark.parametrize(
    ("seconds", "mib", "cpu", "memory"),
    [
        (None, None, 4.0, 512),
        (1.5, 1024, 3.0, 1024),
        (0.1, 64, 1.0, 256),
        (1e9, 1 << 30, 60.0, 2048),
    ],
)
def test_limits_are_the_problems_times_the_factor(
    seconds: float | None, mib: int | None, cpu: float, memory: int
) -> None:
    limits = limits_of(UnitTests(CASES, time_limit=seconds, memory_limit=mib and mib * MIB), 2.0)
    assert (limits.cpu, limits.memory) == (cpu, memory * MIB)
    assert limits.wall > 2 * limits.cpu


def test_a_tolerance_is_the_problem_s_own() -> None:
    near = completion_of("print(0)  # 2 *")
    exact, loose = UnitTests((("1", "2.001"),)), UnitTests((("1", "2.001"),), tolerance=0.01)
    with CodeVerifier(Doubling()) as verifier:
        verdicts = verifier.verify_many([(Problem("p", "", "", tests=tests), near) for tests in (exact, loose)])
    assert [verdict.correct for verdict in verdicts] == [False, True]
