"""Lessons of the relay world: a pass stops where its room ends, and a reader may continue where another stopped."""

from __future__ import annotations

from dataclasses import replace

from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import Lesson
from agon.data.tabletop.relay import RelayMixture, RelayTeacher
from agon.game.parse import parse, well_formed
from agon.types import BASE, Completion

FLAWLESS = RelayMixture(misconceived=0.0, broken=0.0, difficulties=(8,))


def lessons(mixture: RelayMixture, form: str, n: int = 200) -> list[Lesson]:
    return RelayTeacher(0, replace(mixture, formats=((form, 1),))).teach(n)


def steps(text: str) -> int:
    return text.partition("</think>")[0].count(" = ") - 1


def first_line(lesson: Lesson) -> str:
    return lesson.text.splitlines()[1]


def test_a_chain_has_three_to_difficulty_operations() -> None:
    lengths = {len(problem.meta["solution"]) for problem in tabletop.problems("relay", 8, 200, seed=0)}
    assert lengths == {3, 4, 5, 6, 7, 8}
    assert {len(problem.meta["solution"]) for problem in tabletop.problems("relay", 2, 20, seed=0)} == {2}


def test_a_pass_works_no_more_steps_than_it_has_room_for() -> None:
    narrow = replace(FLAWLESS, rooms=((3, 1),))
    assert {steps(lesson.text) for lesson in lessons(narrow, "draft")} == {3}
    worked = {steps(lesson.text) for lesson in lessons(FLAWLESS, "draft")}
    assert worked == {3, 4, 5, 6, 7, 8}


def test_a_recap_is_the_last_value_but_the_answer() -> None:
    for lesson in lessons(FLAWLESS, "draft"):
        trace, _, rest = lesson.text.partition("</think>\nRecap:\n")
        told = rest[0]
        assert f"\n{told}) " in trace
        assert parse(Completion(lesson.text, BASE, 0, 0)).answers
        assert well_formed(Completion(lesson.text, BASE, 0, 0))
        if told != chr(ord("a") + steps(lesson.text) - 1):  # the chain was finished: its last value is withheld
            assert steps(lesson.text) == ord(told) - ord("a") + 2


def test_a_reader_continues_from_the_recap_as_often_as_the_mixture_says() -> None:
    for share in (0.0, 0.5, 1.0):
        drawn = lessons(replace(FLAWLESS, continued=share), "challenge")
        continued = [lesson for lesson in drawn if not first_line(lesson).startswith("Start")]
        assert abs(len(continued) / len(drawn) - share) < 0.12
        for lesson in continued:
            assert f"Recap:\n{first_line(lesson)}\n" in lesson.prompt.messages[0].text


def test_of_two_recaps_a_reader_continues_from_the_further_one() -> None:
    for lesson in lessons(replace(FLAWLESS, continued=1.0), "moa"):
        shown = [line for line in lesson.prompt.messages[0].text.splitlines() if line[1:4] == ") ="]
        assert len(shown) == 2
        assert first_line(lesson) == max(shown, key=lambda line: line[0])
