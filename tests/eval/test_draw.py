"""Drawing bouts: training's prompts byte for byte, drafts drawn once, directions and frozen versions as named."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

from agon.config.arms import ARMS, resolve
from agon.eval.draw import Evaluator
from agon.eval.points import choose, measure, systems
from agon.game.cascade import Control, System
from agon.game.prompts import challenge_prompt
from agon.game.rules import Game
from agon.rundir.records import Joint, SystemCounts
from agon.types import Bout, Direction, Policy, Problem, Request, Sampling, Version, seed_for
from tests.eval.helpers import evaluator, requests
from tests.game.helpers import RIGHT, WRONG, problems, run
from tests.training.helpers.records import counts

A, B = Policy.A, Policy.B
FIRST = {policy: Version.of(policy, 0, "first") for policy in Policy}


def bouts(problems: list[Problem], wanted: list[System], used: Evaluator, samples: int = 1) -> list[list[Bout]]:
    drawn = asyncio.run(used.bouts(problems, {str(n): system for n, system in enumerate(wanted)}, samples))
    return list(drawn.values())


def arm(name: str) -> Game:
    fields = resolve(name)
    return Game(**fields, group_size=2)


def test_the_cascades_prompts_are_trainings_byte_for_byte() -> None:
    fixed = "<think> t </think> the same recap <answer>yes</answer>"
    played, _ = run(problems(2), 0, Game(group_size=1, max_peek_tokens=50), lambda request: fixed)
    (held,) = bouts(problems(2), [(A, B)], evaluator(lambda request: fixed))
    assert [bout.draft.prompt for bout in held] == [bout.draft.prompt for bout in played.bouts]
    assert [bout.final.prompt for bout in held] == [bout.challenge.prompt for bout in played.bouts]
    assert [bout.peek for bout in held] == [bout.peek for bout in played.bouts]


def test_the_sampler_is_asked_the_same_prompts_in_training_and_in_evaluation() -> None:
    """Drafts that differ, hostile and empty ones among them: what reaches the machine is compared, byte for byte."""
    drafts = ["<think> t </think> recap {} <answer>no</answer>", "<think> cut off {}", "</think> </think> <answer>{}"]

    def reply(request: Request) -> str:
        asked = request.prompt.messages[-1].text
        return "<think> </think> <answer>yes</answer>" if "attempt" in asked else drafts[len(asked) % 3].format(asked)

    batch = [Problem(f"p{k}", "why <|im_end|> </think> " + "x" * k, "yes") for k in range(6)]
    _, training = run(batch, 0, Game(group_size=1, max_peek_tokens=50), reply)
    evaluating = evaluator(reply)
    bouts(batch, [(A, B)], evaluating)
    asked = [
        sorted(repr(e.request.prompt) for e in s.events if e.kind == "start") for s in (training, evaluating.sampler)
    ]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 12


def test_self_refines_second_stage_is_trainings_too() -> None:
    fixed = "<think> t </think> the same recap <answer>yes</answer>"
    game = Game(group_size=1, opponent="self", stack="coop", max_peek_tokens=50)
    played, _ = run(problems(1), 0, game, lambda request: fixed)
    (held,) = bouts(problems(1), [(A, A)], evaluator(lambda request: fixed))
    assert held[0].final.prompt == played.bouts[0].challenge.prompt


def test_a_draft_is_drawn_once_and_is_the_standalone_answer() -> None:
    at = evaluator()
    alone, ab, ba = bouts(problems(3), [A, (A, B), (B, A)], at, samples=2)
    assert [bout.final for bout in alone] == [bout.draft for bout in ab]
    assert len(requests(at)) == 3 * 2 * 4, "two drafts and two challenges per problem and sample"
    assert {bout.draft.policy for bout in ba} == {B}


def test_seats_reach_the_sampler_as_they_are_named() -> None:
    at = evaluator()
    (held,) = bouts(problems(1), [(FIRST[A], B)], at)
    asked = requests(at)
    assert [r.seat for r in asked] == [FIRST[A], B]
    assert held[0].draft.completion.version == FIRST[A]
    assert {r.sampling for r in asked} == {Sampling(0.6, 0.95, 100)}


def test_seeds_come_from_problem_sample_and_stage() -> None:
    at = evaluator()
    bouts(problems(2), [(A, B), (B, A)], at, samples=2)
    seeds = [request.seed for request in requests(at)]
    assert len(set(seeds)) == len(seeds)
    assert seed_for(0, "eval", "draft", Policy.A, "p0", 0) in seeds


def test_a_control_reads_something_else_under_the_challengers_own_prompt() -> None:
    def reply(request: Request) -> str:
        asked = request.prompt.messages[-1].text
        question = re.search(r"number (\d)", asked)
        assert question
        return f"<think> </think> {request.seat} drafted number {question[1]} <answer>yes</answer>"

    first, second = problems(2)
    at = evaluator(reply)
    ways: tuple[Literal["own", "shuffled", "none"], ...] = ("own", "shuffled", "none")
    own, shuffled, none = (asyncio.run(at.bout(first, 0, Control(A, B, reads), second)) for reads in ways)
    assert own.peek == "b drafted number 0"
    assert shuffled.peek == "a drafted number 1"
    assert none.peek == ""
    assert (own.draft.policy, shuffled.draft.policy, none.draft.policy) == (B, A, A)
    assert {bout.problem.id for bout in (own, shuffled, none)} == {first.id}
    (rivals,) = bouts([first], [(A, B)], evaluator(reply))
    assert own.final.prompt == challenge_prompt(first, "b drafted number 0")
    assert none.final.prompt == challenge_prompt(first, "")
    assert rivals[0].final.prompt == challenge_prompt(first, "a drafted number 0")


def test_what_is_measured_in_each_arm() -> None:
    names = {name: list(systems(arm(name), FIRST)) for name in ARMS}
    cascade = ["a", "b", "ab", "ba", "first-ab", "first-ba"]
    assert names.pop("grpo") == ["a"]
    assert names.pop("self-refine") == ["a", "self-refine"]
    hidden = [names.pop(name) for name in ("plain-pair", "hidden-drafts", "shared-opponent")]
    assert hidden == [["a", "b"]] * 3, "no draft to read: single pass"
    assert set(map(tuple, names.values())) == {tuple(cascade)}


def half(request: Request) -> str:
    """A drafts wrong on problem 0 and right on 1; B is the other way round; whoever challenges is right on 0 only."""
    asked = request.prompt.messages[-1].text
    first = "number 0" in asked
    if "attempt" in asked.lower():
        return RIGHT if first else WRONG
    return RIGHT if first == (request.seat is Policy.B) else WRONG


def test_counts_conversions_and_regressions() -> None:
    got = asyncio.run(measure(problems(2), systems(arm("agon"), FIRST), evaluator(half), 1))
    assert {name: counts.pass_rate for name, counts in got.items()} == dict.fromkeys(got, 0.5)
    ab, ba = got["ab"].exchange, got["ba"].exchange
    assert ab is not None
    assert ba is not None
    assert (ab.conversions, ab.regressions) == (1, 1)
    assert (ba.conversions, ba.regressions) == (0, 0)
    assert got["a"].tokens_all == got["a"].tokens_final
    assert got["ab"].tokens_all > got["ab"].tokens_final
    assert got["b"].joint == Joint(both_right=0, only_first=1, only_second=1, both_wrong=0)


def test_the_direction_is_the_better_one_on_dev_and_a_tie_goes_to_ab() -> None:
    assert choose(rates(a=9, b=1, ab=4, ba=5)) == (Direction.BA, 0.5)
    assert choose(rates(a=9, b=1, ab=5, ba=5)) == (Direction.AB, 0.5)
    assert choose(rates(a=2, b=8)) == (None, 0.5)
    assert choose({"a": counts(10, 2), "self-refine": counts(10, 3)}) == (None, 0.3)


def rates(**correct: int) -> dict[str, SystemCounts]:
    return {name: counts(10, right) for name, right in correct.items()}
