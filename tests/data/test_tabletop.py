"""The tabletop generator: reproducible, solvable, and right by a second way of computing."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from fractions import Fraction

import pytest

from agon.data import tabletop
from agon.errors import DataError

ALL = [(family, difficulty) for family in tabletop.FAMILIES for difficulty in tabletop.DIFFICULTIES]
STEP = re.compile(r"(-?\d+) ([-+*/]) (-?\d+) = (-?\d+)")


def recompute_chain(question: str) -> int:
    """The gold answer by one evaluation in the integers, reduced only at the end."""
    expression = re.search(r"Start with (\d+)", question)[1]  # type: ignore[index]
    for operation, operand in re.findall(r"\) ([-+*]) (\d+)", question):
        expression = f"({expression} {operation} {operand})"
    return int(eval(expression)) % 17  # noqa: S307


def recompute_basket(question: str) -> int:
    """The gold answer by reading the story with fractions."""
    count = Fraction(re.match(r"\w+ has (\d+)", question)[1])  # type: ignore[index]
    for sentence in question.split(". ")[1:]:
        number = re.search(r"\d+", sentence)
        if "bought" in sentence or "brings" in sentence:
            count += int(number[0])  # type: ignore[index]
        elif "eaten" in sentence or "given away" in sentence:
            count -= int(number[0])  # type: ignore[index]
        elif "doubles" in sentence or "triples" in sentence:
            count *= 2 if "doubles" in sentence else 3
        elif "left" in sentence:
            count /= 2 if "Half" in sentence else 3
    assert count.denominator == 1
    return int(count)


def recompute_mixed(question: str) -> int:
    return int(eval(question.removeprefix("What is ").removesuffix("?")))  # noqa: S307


RECOMPUTE = {"chain": recompute_chain, "basket": recompute_basket, "mixed": recompute_mixed}


@pytest.mark.parametrize(("family", "difficulty"), ALL)
def test_the_gold_answer_is_right_by_an_independent_computation(family: str, difficulty: int) -> None:
    for problem in tabletop.problems(family, difficulty, 60, seed=3):
        assert int(problem.answer) == RECOMPUTE[family](problem.question), problem.question


@pytest.mark.parametrize(("family", "difficulty"), ALL)
def test_every_step_of_a_solution_is_true_and_the_last_one_gives_the_answer(family: str, difficulty: int) -> None:
    for problem in tabletop.problems(family, difficulty, 60, seed=4):
        steps = [STEP.fullmatch(step) for step in problem.meta["solution"]]
        assert len(steps) == difficulty
        for step in steps:
            assert step is not None
            left, operation, right, result = step.groups()
            exact = tabletop.apply(int(left), operation, int(right))
            assert int(result) == (exact % 17 if family == "chain" else exact)
        assert steps[-1] is not None
        assert steps[-1][4] == problem.answer


@pytest.mark.parametrize("family", ["chain", "basket"])
def test_each_step_starts_from_the_result_before_it(family: str) -> None:
    for problem in tabletop.problems(family, 6, 60, seed=5):
        solution = problem.meta["solution"]
        for before, after in itertools.pairwise(solution):
            assert after.split()[0] == before.split()[-1]


def test_values_stay_in_the_range_of_their_family() -> None:
    bounds = {"chain": (0, 16), "basket": (0, 99), "mixed": (-999, 999)}
    for family, (low, high) in bounds.items():
        for problem in tabletop.problems(family, 9, 100, seed=6):
            assert all(low <= int(step.split()[-1]) <= high for step in problem.meta["solution"])


@pytest.mark.parametrize("family", tabletop.FAMILIES)
def test_the_same_seed_gives_the_same_problems_and_another_seed_gives_others(family: str) -> None:
    first = tabletop.problems(family, 5, 50, seed=0)
    assert first == tabletop.problems(family, 5, 50, seed=0)
    assert {p.id for p in first}.isdisjoint(p.id for p in tabletop.problems(family, 5, 50, seed=1))


@pytest.mark.parametrize("family", tabletop.FAMILIES)
def test_a_longer_list_starts_with_the_shorter_one_and_repeats_nothing(family: str) -> None:
    many = tabletop.problems(family, 4, 200, seed=0)
    assert tabletop.problems(family, 4, 20, seed=0) == many[:20]
    assert len({p.id for p in many}) == len({p.question for p in many}) == 200


def test_problems_do_not_depend_on_the_process() -> None:
    program = "from agon.data.tabletop import problems; print([p.id for p in problems('mixed', 5, 20, 7)])"
    seeded = os.environ | {"PYTHONHASHSEED": "123"}
    other = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=seeded)
    assert other.stdout.strip() == str([p.id for p in tabletop.problems("mixed", 5, 20, 7)])


def test_difficulties_do_not_share_a_stream() -> None:
    starts = {d: tabletop.problems("chain", d, 1, seed=0)[0].meta["solution"][0] for d in tabletop.DIFFICULTIES}
    assert len(set(starts.values())) > 5


def test_asking_for_more_than_there_are_says_how_many_there_are() -> None:
    with pytest.raises(DataError, match="only about 204 distinct problems, not 300"):
        tabletop.problems("chain", 1, 300, seed=0)


@pytest.mark.parametrize(
    ("family", "difficulty", "fix"),
    [("chess", 5, "chain, basket, mixed"), ("chain", 0, "1 to 9"), ("chain", 10, "1 to 9")],
)
def test_an_unknown_family_or_difficulty_is_refused_with_what_to_type(family: str, difficulty: int, fix: str) -> None:
    with pytest.raises(DataError) as refused:
        tabletop.problems(family, difficulty, 1, seed=0)
    assert fix in refused.value.fix
