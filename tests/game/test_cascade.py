"""The pure cascade: what it asks for, in which order, and what it does with the answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from agon.game.cascade import Mixture, Peeks, System, Turn, cascade, follow, indexes, peeks_in, turns
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.types import BASE, Completion, Policy, Problem, UnitTests, Version

PROBLEM = Problem("p", "why", "42")
A, B = Policy.A, Policy.B


def clip(text: str) -> str:
    return text[:20]


def completion(text: str) -> Completion:
    return Completion(f"<think>t</think> {text} <answer>42</answer>", BASE, 1, 1)


def asked(system: System, *answers: str, index: int = 0) -> tuple[list[Turn], Peeks]:
    """The turns of a system whose completions are given, and what the last stage read."""
    seen: list[Turn] = []

    async def draw(turn: Turn) -> Completion:
        seen.append(turn)
        return completion(answers[len(seen) - 1])

    return seen, asyncio.run(follow(turns(system, PROBLEM, index, clip), draw))


def test_a_single_pass_asks_the_plain_prompt_and_reads_nothing() -> None:
    seen, peeks = asked(A, "one")
    assert seen == [Turn("draft", A, 0, draft_prompt(PROBLEM))]
    assert peeks == Peeks()


@pytest.mark.parametrize(("system", "answers"), [(A, ["x"]), ((A, B), ["x"] * 2), (Mixture(BASE), ["x"] * 3)])
def test_the_peeks_of_a_system_are_those_its_last_prompt_quotes(system: System, answers: list[str]) -> None:
    seen, _ = asked(system, *answers)
    assert seen[-1].prompt.messages[0].text.count("<attempt>") == peeks_in(system)


def test_a_cascade_drafts_then_challenges_with_the_clipped_summary() -> None:
    seen, peeks = asked((A, B), "a recap that is far too long to be read", "final", index=3)
    assert peeks == Peeks("a recap that is far")
    assert seen[0] == Turn("draft", A, 3, draft_prompt(PROBLEM))
    assert seen[1] == Turn("challenge a", B, 3, challenge_prompt(PROBLEM, "a recap that is far"))


@pytest.mark.parametrize(
    ("tests", "shown", "seen"),
    [
        (None, False, "Add. ```x```"),
        (UnitTests(), False, "Add. [withheld]"),
        (UnitTests(), True, "Add. ```x```"),
    ],
)
def test_code_is_withheld_from_whoever_reads_a_program_unless_the_rules_show_it(
    tests: UnitTests | None, shown: bool, seen: str
) -> None:
    problem = replace(PROBLEM, tests=tests)
    for system in ((A, B), (A, A), Mixture(BASE)):
        steps = turns(system, problem, 0, clip, show_code=shown)
        turn = next(steps)
        while turn.stage == "draft":
            turn = steps.send(completion("Add. ```x```"))
        assert f"<attempt>\n{seen}\n</attempt>" in turn.prompt.messages[0].text


def test_who_reads_itself_refines() -> None:
    seen, _ = asked((A, A), "recap", "final")
    assert seen[1].prompt == refine_prompt(PROBLEM, "recap")
    frozen = Version.of(A, 0, "first")
    seen, _ = asked((frozen, A), "recap", "final")
    assert seen[1].prompt == challenge_prompt(PROBLEM, "recap"), "an earlier version is a rival"


@pytest.mark.parametrize(("index", "other"), [(0, 1), (1, 0), (4, 5), (5, 4)])
def test_an_agent_of_a_mixture_reads_its_own_draft_and_its_partners(index: int, other: int) -> None:
    seen, peeks = asked(Mixture(BASE), "mine", "theirs", "final", index=index)
    assert [(turn.stage, turn.index) for turn in seen] == [("draft", index), ("draft", other), ("moa", index)]
    assert peeks == Peeks("mine", "theirs")
    assert seen[2].prompt == moa_prompt(PROBLEM, "mine", "theirs")


def test_a_sample_of_a_mixture_is_two_bouts() -> None:
    assert indexes(Mixture(BASE), 2) == (4, 5)
    assert indexes((A, B), 2) == indexes(A, 2) == (2,)


def test_the_generator_can_be_driven_by_hand() -> None:
    steps = cascade(PROBLEM, 0, A, B, partial(peek, clip=clip))
    assert next(steps).seat is A
    assert steps.send(completion("recap")).seat is B
    with pytest.raises(StopIteration) as end:
        steps.send(completion("final"))
    assert end.value.value == Peeks("recap")
