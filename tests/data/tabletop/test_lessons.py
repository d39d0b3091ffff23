"""Lessons of the tiny base: true where nothing is misconceived, wrong in the same way every time where something is."""

from __future__ import annotations

import random

import pytest

from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import (
    Beliefs,
    Lesson,
    LessonMixture,
    Teacher,
    facts,
    operations_of,
    recap,
    solve,
    truth,
    write,
)
from agon.game.parse import parse, well_formed
from agon.game.peek import leaks, peek
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.types import Completion

PROBLEMS = tabletop.problems("chain", 5, 40, seed=0)
FLAWLESS = LessonMixture(misconceived=0.0, broken=0.0)


def completion(text: str) -> Completion:
    return Completion(text, "lesson", 0, 0)


def lessons(seed: int, n: int = 300, mixture: LessonMixture | None = None) -> list[Lesson]:
    return Teacher(seed, mixture or LessonMixture()).teach(n)


def test_without_misconceptions_every_solution_is_the_worked_one() -> None:
    for problem in PROBLEMS:
        steps = solve(problem, Beliefs(0, FLAWLESS), FLAWLESS, random.Random(0))
        values = [int(step.split()[-1]) for step in problem.meta["solution"]]
        assert [step.value for step in steps] == values
        assert parse(completion(write(problem, steps))).answers == (problem.answer,)


def test_a_fact_is_what_the_worked_solutions_say() -> None:
    known = {fact: truth(*fact) for fact in facts()}
    assert len(known) == 204
    for problem in PROBLEMS:
        for step in problem.meta["solution"]:
            value, operation, operand, _, result = step.split()
            assert known[int(value), operation, int(operand)] == int(result)


def test_the_share_of_misconceived_facts_is_the_mixtures_and_each_has_one_wrong_value() -> None:
    mixture = LessonMixture()
    sets = [Beliefs(seed, mixture) for seed in range(20)]
    share = sum(len(beliefs.wrong) for beliefs in sets) / (20 * 204)
    assert abs(share - mixture.misconceived) < 0.03
    for beliefs in sets:
        for fact, (value, firmness) in beliefs.wrong.items():
            assert value != truth(*fact)
            assert mixture.least <= firmness <= mixture.most


def test_a_misconceived_fact_is_recalled_wrong_as_often_as_it_should_be() -> None:
    beliefs = Beliefs(0, LessonMixture())
    fact, (wrong, firmness) = next(iter(beliefs.wrong.items()))
    rng = random.Random(0)
    recalled = [beliefs.recall(fact, rng) for _ in range(4_000)]
    assert set(recalled) == {wrong, truth(*fact)}
    assert abs(recalled.count(truth(*fact)) / 4_000 - firmness) < 0.03


def test_a_right_rival_is_adopted_and_a_wrong_one_is_not() -> None:
    mixture, rng = LessonMixture(), random.Random(0)
    beliefs = Beliefs(0, mixture)

    def rate(shown: list[list[int]]) -> float:
        tries = [
            solve(problem, beliefs, mixture, rng, [values])[-1].value == int(problem.answer)
            for problem, values in zip(PROBLEMS, shown, strict=True)
            for _ in range(50)
        ]
        return sum(tries) / len(tries)

    true = [[int(step.split()[-1]) for step in problem.meta["solution"][:-1]] for problem in PROBLEMS]
    false = [[(value + 8) % 17 for value in values] for values in true]
    alone = rate([[] for _ in PROBLEMS])
    assert rate(true) > alone + 0.2
    assert abs(rate(false) - alone) < 0.1


def test_the_recap_shows_every_value_but_the_last() -> None:
    for problem in PROBLEMS:
        steps = solve(problem, Beliefs(1, LessonMixture()), LessonMixture(), random.Random(1))
        seen = peek(completion(write(problem, steps)), clip=str)
        assert seen == recap([step.value for step in steps[:-1]])
        assert "e)" not in seen
        if steps[-1].value not in {step.value for step in steps[:-1]}:
            assert not leaks(seen, str(steps[-1].value))


@pytest.mark.parametrize(("part", "fine"), [("", True), ("close", False), ("answer", False), ("recap", True)])
def test_a_forgotten_part_breaks_the_format_as_the_game_sees_it(part: str, fine: bool) -> None:
    text = write(PROBLEMS[0], solve(PROBLEMS[0], Beliefs(0, FLAWLESS), FLAWLESS, random.Random(0)), part)
    assert well_formed(completion(text)) is fine
    assert bool(peek(completion(text), clip=str)) is (part not in {"close", "recap"})


def test_a_check_mends_some_wrong_values_and_spoils_no_right_one() -> None:
    mixture = LessonMixture(checked=1.0)
    rng = random.Random(2)
    mended = spoilt = kept = 0
    for problem in PROBLEMS * 10:
        value, _ = operations_of(problem)
        for step in solve(problem, Beliefs(0, mixture), mixture, rng):
            right = truth(value, step.operation, step.operand)
            mended += step.first != right == step.checked
            kept += step.first != right and step.checked == step.first
            spoilt += step.first == right != step.checked
            value = step.value
    assert spoilt == 0
    assert abs(mended / (mended + kept) - mixture.mended) < 0.08


def test_lessons_repeat_for_a_seed_and_differ_between_seeds() -> None:
    assert lessons(0) == lessons(0)
    assert not set(lessons(0)) & set(lessons(1))


def test_lessons_use_the_prompts_of_the_game() -> None:
    texts = [lesson.prompt.messages[0].text for lesson in lessons(3)]
    plain = draft_prompt(PROBLEMS[0]).messages[0].text.replace(PROBLEMS[0].question, "")
    challenge = challenge_prompt(PROBLEMS[0], "Recap:").messages[0].text.split("\n\n")[2]
    assert sum("<attempt>" not in text and text.endswith(plain[-80:]) for text in texts) > 90
    assert sum(challenge in text for text in texts) > 80
    assert any("ended without a summary" in text for text in (t.prompt.messages[0].text for t in lessons(3, 2_000)))


def test_no_lesson_is_harder_than_asked() -> None:
    taught = Teacher(0, LessonMixture()).teach(200, hardest=3)
    assert {
        lesson.prompt.messages[0].text.count(") ")
        for lesson in taught
        if "<attempt>" not in lesson.prompt.messages[0].text
    } == {2, 3}
