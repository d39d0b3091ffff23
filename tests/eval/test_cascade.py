"""The two-stage function: training's prompts byte for byte, drafts drawn once, directions and frozen versions as
named.
"""

from __future__ import annotations

import asyncio

from agon.arms import ARMS, resolve
from agon.engine.scripted import ScriptedSampler
from agon.eval.cascade import Seat, Table, hold
from agon.eval.points import choose, measure, merge, systems
from agon.game.rules import Game
from agon.types import Direction, Policy, Problem, Request, Sampling, seed_for
from tests.game.world import RIGHT, WRONG, by_seed, problems, read_tag, run

A, B = Seat(Policy.A), Seat(Policy.B)
FIRST = {Policy.A: "a@000000-first", Policy.B: "b@000000-first"}


def table(answer=by_seed) -> Table:
    return Table(ScriptedSampler(answer), read_tag, Sampling(0.6, 0.95, 100), max_peek_tokens=50)


def requests(at: Table) -> list[Request]:
    return [event.request for event in at.sampler.events if event.kind == "start"]


def arm(name: str) -> Game:
    fields = resolve(name)
    return Game(role_assignment=fields.pop("roles"), **fields, group_size=2)


def test_the_cascades_prompts_are_trainings_byte_for_byte() -> None:
    fixed = "<think> t </think> the same recap <answer>yes</answer>"
    played, _ = run(problems(2), 0, Game(group_size=1, max_peek_tokens=50), lambda request: fixed)
    (held,) = asyncio.run(hold(problems(2), [(A, B)], table(lambda request: fixed)))
    assert [trial.draft.prompt for trial in held] == [bout.draft.prompt for bout in played.bouts]
    assert [trial.final.prompt for trial in held] == [bout.challenge.prompt for bout in played.bouts]
    assert [trial.peek for trial in held] == [bout.peek for bout in played.bouts]


def test_the_sampler_is_asked_the_same_prompts_in_training_and_in_evaluation() -> None:
    """Drafts that differ, hostile and empty ones among them: what reaches the machine is compared, byte for byte."""
    drafts = ["<think> t </think> recap {} <answer>no</answer>", "<think> cut off {}", "</think> </think> <answer>{}"]

    def reply(request: Request) -> str:
        asked = request.prompt.messages[-1].text
        return "<think> </think> <answer>yes</answer>" if "attempt" in asked else drafts[len(asked) % 3].format(asked)

    batch = [Problem(f"p{k}", "why <|im_end|> </think> " + "x" * k, "yes") for k in range(6)]
    _, training = run(batch, 0, Game(group_size=1, max_peek_tokens=50), reply)
    evaluating = table(reply)
    asyncio.run(hold(batch, [(A, B)], evaluating))
    asked = [
        sorted(repr(e.request.prompt) for e in s.events if e.kind == "start") for s in (training, evaluating.sampler)
    ]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 12


def test_self_refines_second_stage_is_trainings_too() -> None:
    fixed = "<think> t </think> the same recap <answer>yes</answer>"
    game = Game(group_size=1, opponent="self", stack="coop", max_peek_tokens=50)
    played, _ = run(problems(1), 0, game, lambda request: fixed)
    (held,) = asyncio.run(hold(problems(1), [(A, A)], table(lambda request: fixed)))
    assert held[0].final.prompt == played.bouts[0].challenge.prompt


def test_a_draft_is_drawn_once_and_is_the_standalone_answer() -> None:
    at = table()
    alone, ab, ba = asyncio.run(hold(problems(3), [A, (A, B), (B, A)], at, samples=2))
    assert [trial.final for trial in alone] == [trial.draft for trial in ab]
    assert len(requests(at)) == 3 * 2 * 4, "two drafts and two challenges per problem and sample"
    assert {trial.draft.seat for trial in ba} == {B}


def test_seats_reach_the_sampler_as_policy_and_version() -> None:
    at = table()
    frozen = Seat(Policy.A, FIRST[Policy.A])
    (held,) = asyncio.run(hold(problems(1), [(frozen, B)], at))
    asked = requests(at)
    assert [(r.policy, r.version) for r in asked] == [(Policy.A, FIRST[Policy.A]), (Policy.B, None)]
    assert held[0].draft.completion.version == FIRST[Policy.A]
    assert {r.sampling for r in asked} == {Sampling(0.6, 0.95, 100)}


def test_seeds_come_from_problem_sample_and_stage() -> None:
    at = table()
    asyncio.run(hold(problems(2), [(A, B), (B, A)], at, samples=2))
    seeds = [request.seed for request in requests(at)]
    assert len(set(seeds)) == len(seeds)
    assert seed_for(0, "eval", "draft", Policy.A, "p0", 0) in seeds


def test_what_is_measured_in_each_arm() -> None:
    names = {name: list(systems(arm(name), FIRST)) for name in ARMS}
    cascade = ["a", "b", "ab", "ba", "first-ab", "first-ba"]
    assert names.pop("grpo") == ["a"]
    assert names.pop("self-refine") == ["a", "aa"]
    assert names.pop("hidden-drafts") == names.pop("shared-opponent") == ["a", "b"], "no draft to read: single pass"
    assert set(map(tuple, names.values())) == {tuple(cascade)}


def half(request: Request) -> str:
    """A drafts wrong on problem 0 and right on 1; B is the other way round; whoever challenges is right on 0 only."""
    asked = request.prompt.messages[-1].text
    first = "number 0" in asked
    if "attempt" in asked.lower():
        return RIGHT if first else WRONG
    return RIGHT if first == (request.policy is Policy.B) else WRONG


def test_counts_conversions_and_regressions() -> None:
    got = asyncio.run(measure(problems(2), systems(arm("agon"), FIRST), table(half), 1))
    assert {name: result["pass"] for name, result in got.items()} == dict.fromkeys(got, 0.5)
    assert (got["ab"]["conversions"], got["ab"]["regressions"]) == (1, 1)
    assert (got["ba"]["conversions"], got["ba"]["regressions"]) == (0, 0)
    assert got["a"]["tokens_all"] == got["a"]["tokens_final"]
    assert got["ab"]["tokens_all"] > got["ab"]["tokens_final"]


def test_processes_add_up() -> None:
    both = asyncio.run(measure(problems(4), {"a": A}, table(), 1))
    parts = [asyncio.run(measure(problems(4)[k::2], {"a": A}, table(), 1)) for k in (0, 1)]
    assert merge(parts) == both


def test_the_direction_is_the_better_one_on_dev_and_a_tie_goes_to_ab() -> None:
    rates = lambda ab, ba: {"a": {"pass": 0.9}, "b": {"pass": 0.1}, "ab": {"pass": ab}, "ba": {"pass": ba}}  # noqa: E731
    assert choose(rates(0.4, 0.5)) == (Direction.BA, 0.5)
    assert choose(rates(0.5, 0.5)) == (Direction.AB, 0.5)
    assert choose({"a": {"pass": 0.25}, "b": {"pass": 0.75}}) == (None, 0.5)
    assert choose({"a": {"pass": 0.2}, "aa": {"pass": 0.3}}) == (None, 0.3)
