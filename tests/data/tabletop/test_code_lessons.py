"""Lessons of the base of code: right where nothing is misconceived, wrong in one way where something is."""

from __future__ import annotations

import random

from agon.data.tabletop.code_lessons import (
    CodeBeliefs,
    CodeMixture,
    CodeTeacher,
    Lesson,
    recap,
    solve,
    wordings,
    write,
)
from agon.data.tabletop.code_templates import Task, draw
from agon.game.parse import parse, well_formed
from agon.game.peek import peek
from agon.types import Completion
from agon_judge.code.extract import one_program

FLAWLESS = CodeMixture(misconceived=0.0, broken=0.0)
RNG = random.Random(0)
TASKS = [draw("any", 3, RNG) for _ in range(60)]


def completion(text: str) -> Completion:
    return Completion(text, "lesson", 0, 0)


def lessons(seed: int, mixture: CodeMixture, n: int = 200) -> list[Lesson]:
    return CodeTeacher(seed, mixture).teach(n)


def test_without_misconceptions_the_program_in_the_answer_is_the_solution() -> None:
    for task in TASKS:
        lines = solve(task, CodeBeliefs(0, FLAWLESS), FLAWLESS, random.Random(0))
        assert one_program(completion(write(task, lines)).text) == "\n".join(task.solution)


def test_a_lesson_is_well_formed_and_its_peek_holds_every_line_but_the_last() -> None:
    for task in TASKS:
        written = completion(write(task, task.solution[1:]))
        assert well_formed(written)
        shown = peek(written, clip=str)
        assert shown.replace("[withheld]", "").strip() == recap(task.solution[1:-1])
        assert task.solution[-1] not in shown


def test_the_share_of_misconceived_wordings_is_the_mixtures() -> None:
    mixture, every = CodeMixture(), list(wordings())
    sets = [CodeBeliefs(seed, mixture) for seed in range(20)]
    share = sum(len(beliefs.wrong) for beliefs in sets) / (20 * len(every))
    assert abs(share - mixture.misconceived) < 0.03
    mistakes = {(family, words): instruction.mistakes for family, words, instruction in every}
    for beliefs in sets:
        assert all(mistake in mistakes[key] for key, (mistake, _) in beliefs.wrong.items())
        assert all(mixture.least <= right <= mixture.most for _, right in beliefs.wrong.values())


def test_a_misconceived_wording_is_recalled_wrong_as_often_as_it_should_be() -> None:
    beliefs, rng = CodeBeliefs(0, CodeMixture()), random.Random(0)
    task, said = next(
        (task, said) for task in TASKS for said in task.said if (task.family, said.words) in beliefs.wrong
    )
    mistake, right = beliefs.wrong[task.family, said.words]
    recalled = [beliefs.recall(task.family, said, rng) for _ in range(4_000)]
    assert set(recalled) == {said.line(), said.line(mistake)}
    assert abs(recalled.count(said.line()) / 4_000 - right) < 0.03


def rate(tasks: list[Task], shown: list[list[str]]) -> float:
    mixture, rng = CodeMixture(), random.Random(0)
    beliefs = CodeBeliefs(0, mixture)
    tries = [
        solve(task, beliefs, mixture, rng, [lines])[:-1] == task.solution[1:-1]
        for task, lines in zip(tasks, shown, strict=True)
        for _ in range(30)
    ]
    return sum(tries) / len(tries)


def test_right_lines_of_a_rival_are_adopted_and_wrong_ones_are_not() -> None:
    alone = rate(TASKS, [[] for _ in TASKS])
    assert rate(TASKS, [task.solution[1:-1] for task in TASKS]) > alone + 0.2
    assert abs(rate(TASKS, [["v = 0"] * 2 for _ in TASKS]) - alone) < 0.03


def test_the_same_seed_gives_the_same_lessons_under_every_prompt_of_the_game() -> None:
    assert lessons(0, CodeMixture()) == lessons(0, CodeMixture())
    assert lessons(0, CodeMixture()) != lessons(1, CodeMixture())
    texts = [lesson.prompt.messages[0].text for lesson in lessons(0, CodeMixture())]
    for phrase in ("Another solver's attempt", "Your own earlier attempt", "Two earlier attempts"):
        assert 0 < sum(phrase in text for text in texts) < len(texts)


def test_a_few_lessons_omit_a_part_of_the_format() -> None:
    made = lessons(0, CodeMixture(), 600)
    broken = [lesson for lesson in made if not well_formed(completion(lesson.text)) or "Recap:" not in lesson.text]
    assert 0.01 < len(broken) / len(made) < 0.08
    assert any(not parse(completion(lesson.text)).closed for lesson in broken)
