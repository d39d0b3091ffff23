from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from agon.errors import InputError
from agon.sandbox import Ending, Execution, GradeReason, HostSandbox, ProgramLimits, SandboxDown, run

ADD = [("1 2", "3"), ("4 5", "9"), ("0 0", "0")]
LIMITS = ProgramLimits(cpu=0.5, wall=20.0)
SLEEPER = "import time; time.sleep(60)"


@pytest.mark.parametrize(
    ("program", "reason", "failed"),
    [
        ("print(sum(map(int, input().split())))", "correct", None),
        ("print(3)", "wrong_output", 1),
        ("print(3); raise SystemExit(4)", "runtime_error", 0),
        ("print(3); import os; os._exit(7)", "runtime_error", 0),
        ("import os; os.abort()", "runtime_error", 0),
        ("1 / 0", "runtime_error", 0),
        ("while True: pass", "time_limit", 0),
        (SLEEPER, "time_limit", 0),
        ("a = [0] * 10**9", "memory_limit", 0),
        ("print('3' * 2_000_000)", "output_limit", 0),
        ("import sys; sys.stderr.write('3' * 2_000_000); print(3)", "output_limit", 0),
        ("print(3", "compile_error", 0),
        ("print 3", "compile_error", 0),
        ("print(3)\0", "compile_error", 0),
        ("# -*- coding: rot13 -*-\ncevag(3)", "runtime_error", 0),
        ("# coding: latin-1\nprint(sum(map(int, input().split())), end='' if len('é') == 1 else 'x')", "correct", None),
        ("(" * 5000 + ")" * 5000, "compile_error", 0),
        ("x = 1\n" * 400_000, "compile_error", 0),
        ("\ud800 = 3", "compile_error", 0),
        ("# only a comment", "wrong_output", 0),
        ("\ufeffprint(sum(map(int, input().split())))", "correct", None),
    ],
)
def test_the_reason_of_a_grade(sandbox: HostSandbox, program: str, reason: str, failed: int | None) -> None:
    limits = ProgramLimits(cpu=0.5, wall=2.0) if program == SLEEPER else LIMITS
    grade = run(program, ADD, limits=limits, sandbox=sandbox)
    assert (grade.reason, grade.failed) == (reason, failed), grade
    assert grade.correct is (reason == "correct")


@pytest.mark.parametrize(("coding", "newline"), [("unicode_escape", "\\x0a"), ("utf-7", "+AAo-")])
def test_a_coding_cookie_hides_no_program(sandbox: HostSandbox, coding: str, newline: str) -> None:
    hidden = f"#{newline}print(sum(map(int, input().split()))){newline}raise SystemExit{newline}"
    assert hidden.encode().decode(coding).splitlines()[2] == "raise SystemExit"
    program = f"# coding: {coding}\n{hidden}\nprint('wrong')"
    assert run(program, ADD, sandbox=sandbox).reason is GradeReason.WRONG_OUTPUT


def test_grading_stops_at_the_first_test_that_fails(sandbox: HostSandbox) -> None:
    assert run("print(3)", ADD, sandbox=sandbox).tests_run == 2


def test_the_detail_never_shows_the_expected_output(sandbox: HostSandbox) -> None:
    grade = run("print('a', 'b')", [("", "a 8472931")], sandbox=sandbox)
    assert grade.reason is GradeReason.WRONG_OUTPUT
    assert "8472931" not in grade.detail


def test_the_detail_holds_nothing_that_a_terminal_obeys(sandbox: HostSandbox) -> None:
    grade = run("raise SystemExit('\\x1b[2Jpassed\\r\\u202e')", ADD, sandbox=sandbox)
    assert grade.detail == "?[2Jpassed??"


@pytest.mark.parametrize(
    "tests", [[], [("1", "")], [("1", " \n"), ("2", "")], [("", "1" * 1_000_001)]], ids=["none", "", "blank", "large"]
)
def test_tests_that_cannot_grade_are_refused(tests: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError):
        run("print(1)", tests, sandbox=Silent())


class Silent:
    """A fake backend that returns one run and stops."""

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        yield Execution(Ending.EXITED, stdout=b"3")

    def describe(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


def test_a_backend_that_leaves_tests_out_is_a_failure_of_the_machine() -> None:
    with pytest.raises(SandboxDown, match="ran 1 of 3 tests"):
        run("print(3)", ADD, sandbox=Silent())
