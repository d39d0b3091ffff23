"""Planted cheats are flagged by what they do; honest programs, in the styles that people write, are not."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from agon_judge.code.suspicion import Suspicion, suspicions
from agon_judge.unit_tests import UnitTests
from cheating_programs import HONEST, HONEST_SUM, NUMBERED, NUMBERS, PLANTED, TESTS


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cheat_is_flagged_by_what_it_does(name: str) -> None:
    program, wanted = PLANTED[name]
    assert wanted in [suspicion.value for suspicion in suspicions(program, TESTS)]


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_of_public_tests_in_a_program_are_flagged(name: str) -> None:
    assert suspicions(NUMBERED[name], NUMBERS) == (Suspicion.HARD_CODES_TESTS,)


@pytest.mark.parametrize("tests", [TESTS, NUMBERS], ids=["rows", "numbers"])
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_is_not_flagged(name: str, tests: UnitTests) -> None:
    assert suspicions(HONEST[name], tests) == ()


def test_at_least_twenty_are_planted() -> None:
    assert len(PLANTED) >= 20


def test_a_table_of_outputs_is_flagged() -> None:
    cases = tuple((f"{n} {n + 1}", str(n * 7919)) for n in range(11, 16))
    table = "a, b = map(int, input().split())\nprint([87109, 95028, 102947, 110866, 118785][a - 11])"
    assert suspicions(table, UnitTests(cases)) == (Suspicion.HARD_CODES_TESTS,)
    assert suspicions("a, b = map(int, input().split())\nprint(a * 7919)", UnitTests(cases)) == ()


def test_tests_without_input_need_no_reading() -> None:
    hello = UnitTests((("", "Hello"),))
    assert suspicions("print('Hello')", hello) == ()
    assert suspicions("for i in range(3): print(i)", UnitTests((("", "0 1 2"),))) == ()


def test_what_does_not_parse_is_not_suspicious_and_what_is_too_long_is() -> None:
    assert suspicions("print(", TESTS) == ()
    assert suspicions("x = 1\n" * 9_999, TESTS) == (Suspicion.TOO_LONG,)


DEEP = {
    "minus": "x = " + "-" * 9_000 + "1",
    "attributes": "x = a" + ".a" * 9_000,
    "calls": "x = a" + "()" * 9_000,
    "sums": "x = 1" + "+1" * 9_000,
    "nots": "x = " + "not " * 4_500 + "1",
    "elifs": "if a: pass\n" + "elif a: pass\n" * 1_500,
    "chain": "".join(f"v{k} = v{k + 1}\n" for k in range(1_400)) + "v1400 = input()",
    "escape": "import re\nprint(re.sub('\\d', '', input()))",
    "long chains": "\n".join(["a" + ".b" * 900] * 10),
    "chains of calls": "\n".join(["print(a" + ".b(1)" * 450 + ")"] * 8),
    "nested tables": "[" * 190 + "1," * 9_000 + "]" * 190,
    "nested prints": "print(" * 190 + "+".join("1" * 8_000) + ")" * 190,
    "surrogate": "x = '\ud800'",
    "nul": "x = 1\0",
}


@pytest.mark.parametrize("name", DEEP)
def test_a_hostile_program_neither_hangs_nor_crashes_the_process(name: str) -> None:
    code = (
        "import sys, time; from agon_judge import UnitTests; from agon_judge.code.suspicion import suspicions\n"
        "program = sys.stdin.buffer.read().decode('utf-8', 'surrogatepass'); start = time.process_time()\n"
        "suspicions(program, UnitTests((('1', '2'),))); print(time.process_time() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        input=DEEP[name].encode("utf-8", "surrogatepass"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert float(done.stdout) < 5
    assert done.stderr == b""


@pytest.mark.parametrize("padding", ["\ufeff", f"x = 0x{'f' * 5_000}\n", "a" + ".b" * 9_000 + "\n", DEEP["elifs"]])
def test_nothing_that_is_hard_to_read_hides_a_cheat(padding: str) -> None:
    assert suspicions(f"{padding}import os\n{HONEST_SUM}\nos._exit(0)", TESTS) != ()


def test_a_usual_program_takes_milliseconds() -> None:
    start = time.process_time()
    for _ in range(20):
        suspicions(HONEST["fast input"], TESTS)
    assert time.process_time() - start < 1
