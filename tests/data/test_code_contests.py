"""CodeContests: rows of the Hub's schema become problems with tests, or are left out by a rule that is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agon.config import Data, Source
from agon.data import read, splits
from agon.data.code_contests import EASY, code_problem
from agon.errors import DataError
from agon.types import Problem, UnitTests
from tests.data.helpers import code_row, write_parquet


def made(**changes: Any) -> Problem:
    problem = code_problem(code_row(**changes))
    assert isinstance(problem, Problem)
    return problem


def test_problems_carry_all_their_tests_and_no_gold() -> None:
    problem = made()
    assert problem.answer == ""
    cases = (("1 2\n", "3\n"), ("5 5\n", "10\n"), ("0 0\n", "0\n"))
    assert problem.tests == UnitTests(cases, time_limit=1.5, memory_limit=256_000_000)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"public_tests": {"input": ["1"], "output": []}}, "differ in number"),
        (dict.fromkeys(("public_tests", "private_tests", "generated_tests")), "no tests"),
        ({"public_tests": {"input": [None], "output": ["1"]}}, "not text"),
        ({"description": "  "}, "question is empty"),
    ],
)
def test_rows_without_sound_tests_are_unusable(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        code_problem(code_row(**changes))


def test_problems_that_use_files_are_left_out() -> None:
    assert code_problem(code_row(input_file="in.txt")) == "with named files"
    assert code_problem(code_row(output_file="out.txt")) == "with named files"


@pytest.mark.parametrize(
    "words",
    [
        "If there are multiple solutions, print any of them.",
        "If several answers exist you may output\nany one of them.",
        "Output any valid sequence.",
        "Print the numbers that remain, in any order.",
        "Any correct answer will be accepted.",
        "Print any possible answer.",
        "Solutions are verified by a special judge.",
    ],
)
def test_problems_with_several_right_outputs_are_left_out(words: str) -> None:
    assert code_problem(code_row(description=f"A task. {words}")) == "with several right outputs"


@pytest.mark.parametrize("words", ["This is an interactive problem.", "Do not forget to flush the output."])
def test_interactive_problems_are_left_out(words: str) -> None:
    assert code_problem(code_row(description=f"A task. {words}")) == "with an interactive judge"


@pytest.mark.parametrize(
    "words",
    [
        "Do not print any extra spaces.",
        "The input contains the numbers in any order. Print their sum.",
        "If there are several such strings, print the lexicographically smallest.",
        "If you cannot find any, print -1.",
        "Can any of the players win? Print YES or NO.",
        "Print the number of ways to pick any two of the stones.",
        "Chef likes interactive toys.",
    ],
)
def test_problems_with_one_right_output_stay(words: str) -> None:
    assert words in made(description=f"A task. {words}").question


def test_a_test_of_many_megabytes_is_left_out_and_counted() -> None:
    problem = made(public_tests={"input": ["9" * 50_000_000, "1 2\n"], "output": ["1", "3\n"]})
    assert problem.tests is not None
    assert (len(problem.tests.cases), problem.meta["oversized_tests"]) == (3, 1)


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (None, None),
        ({"seconds": 0, "nanos": 0}, None),
        ({"seconds": -3, "nanos": 0}, None),
        ({"seconds": 10**9, "nanos": 0}, 30.0),
    ],
)
def test_absurd_time_limits_are_not_believed(limit: dict[str, int] | None, seconds: float | None) -> None:
    tests = made(time_limit=limit, memory_limit_bytes=0).tests
    assert tests is not None
    assert (tests.time_limit, tests.memory_limit) == (seconds, None)


def copy(folder: Path, easy: int) -> str:
    """A local copy laid out as on the Hub, with so many usable EASY rows among others."""
    rows = [code_row(name=f"{n}", description=f"Add two numbers, number {n}.") for n in range(easy)]
    others = [code_row(name=f"m{n}", description=f"Harder, number {n}.", difficulty=n) for n in range(30) if n != EASY]
    odd = [code_row(name="f", input_file="in.txt"), code_row(name="s", description="Print any of them.")]
    write_parquet(folder / "train-00000-of-00001.parquet", [*rows, *others, *odd])
    return str(folder)


def parts(path: str, held_out: int, dev: int) -> Data:
    sizes = {"held_out": held_out, "dev": dev, "train": None}
    return Data(**{part: Source(preset="codecontests-easy", path=path, take=n) for part, n in sizes.items()})


def test_the_easy_rows_are_split_in_the_paper_s_sizes(tmp_path: Path) -> None:
    path = copy(tmp_path, easy=420)
    assert dict(read(Source(preset="codecontests-easy", path=path)).filtered) == {
        "of a different difficulty": 29,
        "with named files": 1,
        "with several right outputs": 1,
    }
    made = splits(parts(path, 300, 100))
    assert (len(made.held_out), len(made.dev), len(made.train)) == (300, 100, 20)
    assert all(problem.is_code for problems in made.parts.values() for problem in problems)


def test_too_few_easy_rows_are_an_error_with_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        splits(parts(copy(tmp_path, easy=350), 300, 100))
    message = refused.value.message
    assert message.startswith("codecontests-easy")
    for count in ("350 usable", "381 rows", "29 of a different difficulty", "1 with named files", "data.held_out 300"):
        assert count in message
    assert refused.value.fix.startswith("take fewer, such as data.dev.take=47 data.held_out.take=139, or")
