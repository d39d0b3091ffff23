"""Templated programs: made from a seed, right by their own tests, and tested well enough to show likely mistakes."""

from __future__ import annotations

import random

import pytest

from agon.data.tabletop.code_phrases import FAMILIES, Instruction
from agon.data.tabletop.code_templates import Said, Task, cases_for, draw, mistaken, outputs, problems
from agon.errors import DataError
from agon.game.prompts import draft_prompt
from agon.types import Problem

PROBLEMS = problems("any", 3, 120, seed=0)


def passes(lines: list[str], cases: list[tuple[str, str]]) -> bool:
    printed = outputs(lines, [given for given, _ in cases])
    return printed == [expected.split() for _, expected in cases]


def cases_of(problem: Problem) -> list[tuple[str, str]]:
    assert problem.tests is not None
    return list(problem.tests.cases)


def test_the_same_seed_gives_the_same_problems_and_a_longer_list_starts_with_the_shorter() -> None:
    assert problems("any", 3, 20, seed=0) == PROBLEMS[:20]
    assert problems("any", 3, 20, seed=1) != PROBLEMS[:20]
    assert len({problem.id for problem in PROBLEMS}) == len(PROBLEMS)


def test_a_problem_of_difficulty_three_is_a_program_of_four_lines_that_reads_and_prints() -> None:
    for problem in PROBLEMS:
        lines = problem.answer.splitlines()
        assert len(lines) == 4
        assert "input()" in lines[0]
        assert lines[-1].startswith("print(")
        assert problem.question.count("\n") == 3
        assert problem.is_code
        assert "Python program" in draft_prompt(problem).messages[0].text


def test_a_gold_passes_its_tests_and_no_constant_does() -> None:
    for problem in PROBLEMS:
        assert passes(problem.answer.splitlines(), cases_of(problem))
        assert len({expected for _, expected in cases_of(problem)}) > 1


def test_no_solution_ever_fails_whatever_the_instructions_before_it() -> None:
    rng = random.Random(1)
    for _ in range(300):
        task = draw("any", 4, rng)
        assert passes(task.solution, cases_for(task)), task.question


def test_the_tests_show_a_mistake_that_other_inputs_of_the_problem_would_show() -> None:
    """A few mistakes differ from the solution on one input in hundreds; those may pass."""
    rng = random.Random(2)
    shown = hidden = 0
    for _ in range(60):
        task, twin = draw("any", 3, rng), random.Random(3)
        others = [given for _ in range(5) for given, _ in cases_for(draw(task.family, 3, twin))]
        right = outputs(task.solution, others)
        for lines in mistaken(task):
            passed = passes(lines, cases_for(task))
            shown += not passed
            hidden += passed and outputs(lines, others) != right
    assert shown > 200
    assert hidden <= 0.01 * shown


@pytest.mark.parametrize("family", FAMILIES)
def test_every_mistake_of_every_instruction_changes_what_some_program_prints(family: str) -> None:
    """A mistake that no input shows would teach nothing."""
    steps, ends = FAMILIES[family].steps, FAMILIES[family].ends
    whole = next(end for end in ends if end.code in ("v", "*v"))
    for instruction in (*steps, *ends):
        unseen = set(instruction.mistakes)
        for constant in (2, 3, 5, 7):
            said = Said(instruction.words[0], instruction, constant, instruction in ends)
            task = Task(family, (said,) if said.prints else (said, Said(whole.words[0], whole, 0, True)))
            cases = cases_for(task)
            unseen -= {m for m in unseen if passes([task.read, said.line(m), *task.solution[2:]], cases) is False}
        assert not unseen, instruction.code


def test_no_wording_means_two_things() -> None:
    for family in FAMILIES.values():
        words = [words for one in (*family.steps, *family.ends) for words in one.words]
        assert len(words) == len(set(words))
        assert all(isinstance(one, Instruction) and one.code not in one.mistakes for one in family.steps + family.ends)


@pytest.mark.parametrize(
    ("family", "difficulty", "message"),
    [("poems", 3, "no family 'poems'"), ("any", 5, "no difficulty 5"), ("any", 0, "no difficulty 0")],
)
def test_what_does_not_exist_is_refused_with_what_does(family: str, difficulty: int, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        problems(family, difficulty, 1, seed=0)
    assert "numbers" in refused.value.fix or "1 to 4" in refused.value.fix


def test_asking_for_more_than_there_are_says_how_many_there_are() -> None:
    with pytest.raises(DataError, match="has only about"):
        problems("texts", 1, 200, seed=0)
