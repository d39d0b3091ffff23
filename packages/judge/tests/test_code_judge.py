from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from agon_judge.code.extract import one_program
from agon_judge.code.judge import CodeJudge, limits_of
from agon_judge.sandbox import Ending, Execution, ProgramLimits, SandboxDown
from agon_judge.unit_tests import UnitTests
from agon_judge.verdict import Reason

MIB = 1 << 20


CASES = (("1", "2"), ("2", "4"))


TESTS = UnitTests(CASES)
"""Double it."""


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


RIGHT, WRONG = "print(2 * int(input()))", "print(0)"


def test_a_failure_of_the_machine_is_never_a_wrong_answer() -> None:
    with CodeJudge(Doubling(faults=2)) as judge:
        assert judge.judge(RIGHT, TESTS).correct
    with CodeJudge(Doubling(faults=99)) as judge:
        verdict = judge.judge(WRONG, TESTS)
        assert (verdict.reason, verdict.graded) == (Reason.INFRA, False)
        assert judge.counters["infra"] == 1


def test_a_failure_of_the_machine_is_not_remembered() -> None:
    room = Doubling(faults=3)
    with CodeJudge(room) as judge:
        assert judge.judge(RIGHT, TESTS).reason is Reason.INFRA
        assert judge.judge(RIGHT, TESTS).correct


def test_a_verdict_is_remembered_by_program_tests_and_limits() -> None:
    room = Doubling()
    with CodeJudge(room) as judge:
        longer = UnitTests(CASES, time_limit=9.0)
        for program, tests in ((RIGHT, TESTS), (RIGHT, TESTS), (WRONG, TESTS), (RIGHT, longer)):
            judge.judge(program, tests)
        judge.judge(RIGHT, UnitTests((("1", "2"), ("3", "6"))))
        assert (room.programs, judge.counters["cached"]) == (4, 1)


def test_the_verdict_names_the_test_that_failed_and_not_its_output() -> None:
    with CodeJudge(Doubling()) as judge:
        verdict = asyncio.run(judge.judge_async(WRONG, TESTS))
    assert verdict.reason is Reason.WRONG_OUTPUT
    assert verdict.detail == "test 1 of 2: token 1 of 1 differs (input: 1)"


def test_a_long_input_is_quoted_in_part() -> None:
    with CodeJudge(Doubling()) as judge:
        verdict = judge.judge(WRONG, UnitTests((("0" * 500, "5"),)))
    assert len(verdict.detail) < 200
    assert verdict.detail.endswith("0...)")


@pytest.mark.parametrize("tests", [UnitTests(), UnitTests((("1", ""),)), UnitTests((("1", " "),))])
def test_tests_that_cannot_judge_are_masked(tests: UnitTests) -> None:
    with CodeJudge(Doubling()) as judge:
        verdicts = judge.judge_many([(RIGHT, tests), (one_program("nothing"), tests)])
    assert [(verdict.reason, verdict.graded) for verdict in verdicts] == [(Reason.BAD_GOLD, False)] * 2


def test_a_text_without_a_program_is_judged_without_a_box() -> None:
    room = Doubling()
    with CodeJudge(room) as judge:
        assert judge.judge(one_program("nothing"), TESTS).reason is Reason.NO_PROGRAM
    assert not room.programs


@pytest.mark.parametrize(
    ("seconds", "mib", "cpu", "memory"),
    [
        (None, None, 4.0, 512),
        (1.5, 1024, 3.0, 1024),
        (0.1, 64, 1.0, 256),
        (1e9, 1 << 30, 60.0, 2048),
    ],
)
def test_limits_are_those_of_the_tests_times_the_factor(
    seconds: float | None, mib: int | None, cpu: float, memory: int
) -> None:
    limits = limits_of(UnitTests(CASES, time_limit=seconds, memory_limit=mib and mib * MIB), 2.0)
    assert (limits.cpu, limits.memory) == (cpu, memory * MIB)
    assert limits.wall > 2 * limits.cpu


def test_a_tolerance_is_that_of_the_tests() -> None:
    near = "print(0)  # 2 *"
    exact, loose = UnitTests((("1", "2.001"),)), UnitTests((("1", "2.001"),), tolerance=0.01)
    with CodeJudge(Doubling()) as judge:
        verdicts = judge.judge_many([(near, tests) for tests in (exact, loose)])
    assert [verdict.correct for verdict in verdicts] == [False, True]
