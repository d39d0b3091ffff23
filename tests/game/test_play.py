"""Algorithm 1 played by the scripted sampler: roles, pairing, order of events, budget, failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.algorithm import play
from agon.config.arms import ARMS, resolve
from agon.engine.scripted import ScriptedSampler
from agon.game.budget import Entry, Ledger
from agon.game.rules import Game
from agon.types import Policy, Reason, Request, Sampling, UnitTests, Verdict, seed_for
from tests.game.helpers import RIGHT, WRONG, by_seed, problems, read_tag, run
from tests.waiting import until

arm_names = st.sampled_from(list(ARMS))
sizes = st.integers(2, 5)
quick = settings(max_examples=25, deadline=None)


def arm(name: str, **more) -> Game:
    fields = resolve(name)
    return Game(**fields, **more)


# -- roles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "drafter"), [(0, Policy.A), (1, Policy.B), (2, Policy.A), (7, Policy.B)])
def test_a_drafts_on_even_steps_and_b_on_odd_ones(step, drafter) -> None:
    played, _ = run(problems(1), step)
    assert (played.drafter, played.challenger) == (drafter, drafter.rival)
    assert (played.standalone.policy, played.competitive.policy) == (drafter, drafter.rival)


@pytest.mark.parametrize("step", [0, 1])
def test_fixed_roles_never_change(step) -> None:
    played, _ = run(problems(1), step, arm("fixed-roles", group_size=2))
    assert (played.drafter, played.challenger) == (Policy.A, Policy.B)


@quick
@given(name=arm_names, n=sizes, step=st.integers(0, 3))
def test_no_challenge_meets_its_own_policys_draft_except_in_self_refine(name, n, step) -> None:
    played, _ = run(problems(2), step, arm(name, group_size=n))
    for bout in played.bouts:
        if bout.challenge:
            assert (bout.challenge.policy == bout.draft.policy) == (name == "self-refine")


def test_requests_are_sent_to_the_policy_whose_role_it_is() -> None:
    _, sampler = run(problems(2), 1, Game(group_size=2))
    asked = [event.request for event in sampler.events if event.kind == "start"]
    assert {request.seat for request in asked[:4]} == {Policy.B}
    assert {request.seat for request in asked[4:]} == {Policy.A}


# -- pairing and what is shown ----------------------------------------------------------------------------------------


def told(request: Request) -> str:
    return request.prompt.messages[-1].text


def tagged(request: Request) -> str:
    """Each draft carries its own seed in its summary, so that a reader can be traced to what it read."""
    return f"<think> private {request.seed} </think> recap {request.seed} <answer>yes</answer>"


def test_challenge_i_is_shown_draft_i_and_nothing_else() -> None:
    played, _ = run(problems(2), game=Game(group_size=3), answer=tagged)
    for bout in played.bouts:
        game_seeds = {other.draft.index: seed_for(0, 0, "draft", Policy.A, bout.draft.problem.id, other.draft.index)
                      for other in played.bouts}  # fmt: skip
        prompt = bout.challenge.prompt.messages[-1].text
        assert f"recap {game_seeds.pop(bout.draft.index)}" in prompt
        assert not any(f"recap {seed}" in prompt for seed in game_seeds.values())


def test_the_trace_and_the_answer_are_withheld() -> None:
    played, _ = run(problems(1), game=Game(group_size=2), answer=tagged)
    for bout in played.bouts:
        assert "private" not in bout.challenge.prompt.messages[-1].text
        assert "yes" not in bout.peek


@pytest.mark.parametrize("name", ["hidden-drafts", "shared-opponent"])
def test_hidden_drafts_are_not_shown(name) -> None:
    played, _ = run(problems(1), game=arm(name, group_size=3), answer=tagged)
    for bout in played.bouts:
        assert bout.peek is None
        assert bout.challenge.prompt == bout.draft.prompt


@pytest.mark.parametrize(
    ("name", "rivals"),
    [("agon", [0, 1, 2]), ("coop", [0, 1, 2]), ("hidden-drafts", [0, 1, 2]), ("shared-opponent", [0, 0, 0]),
     ("mispaired", [1, 2, 0])],
)  # fmt: skip
def test_which_draft_pays_which_challenge(name, rivals) -> None:
    played, _ = run(problems(1), game=arm(name, group_size=3))
    assert [bout.rival for bout in played.bouts] == rivals


def test_the_conversion_bonus_is_paid_on_the_paired_draft() -> None:
    """Draft 0 right, drafts 1 and 2 wrong, every challenge right: who is paid depends on the pairing alone."""
    right_seed = seed_for(0, 0, "draft", Policy.A, "p0", 0)
    wrong_seeds = {seed_for(0, 0, "draft", Policy.A, "p0", i) for i in (1, 2)}

    def answer(request: Request) -> str:
        return WRONG if request.seed in wrong_seeds else RIGHT

    assert right_seed not in wrong_seeds
    paid = {
        name: [
            bout.challenge.reward.conversion for bout in run(problems(1), 0, arm(name, group_size=3), answer)[0].bouts
        ]
        for name in ("agon", "coop", "hidden-drafts", "shared-opponent", "mispaired")
    }
    assert paid == {
        "agon": [0, 1, 1], "coop": [0, 0, 0], "hidden-drafts": [0, 1, 1], "shared-opponent": [0, 0, 0], "mispaired":
        [1, 1, 0],
    }  # fmt: skip


def test_the_drafter_gets_no_opponent_term() -> None:
    played, _ = run(problems(3), game=Game(group_size=4))
    for rollout in played.standalone.rollouts():
        assert rollout.reward.conversion == rollout.reward.margin == rollout.reward.tiebreak == 0


# -- streams ----------------------------------------------------------------------------------------------------------


def test_advantages_are_formed_within_each_streams_own_group() -> None:
    from agon.game.advantage import advantages

    played, _ = run(problems(3), game=Game(group_size=4))
    for stream in played.streams:
        for group in stream.groups:
            assert len({rollout.problem.id for rollout in group}) == 1
            assert [r.advantage for r in group] == advantages([r.reward.total for r in group])
    assert any(r.advantage is not None for r in played.standalone.rollouts())
    assert any(r.advantage is not None for r in played.competitive.rollouts())


def test_grpo_is_one_group_of_2n_and_no_second_stage() -> None:
    played, _ = run(problems(2), 1, arm("grpo", group_size=3))
    assert played.competitive is None
    assert [len(group) for group in played.standalone.groups] == [6, 6]
    assert played.standalone.policy is Policy.A
    assert len({rollout.prompt for rollout in played.standalone.groups[0]}) == 1


def test_self_refine_trains_one_policy_with_both_streams() -> None:
    played, _ = run(problems(2), 1, arm("self-refine", group_size=3))
    assert {stream.policy for stream in played.streams} == {Policy.A}
    assert "your" in played.bouts[0].challenge.prompt.messages[-1].text.lower()


@quick
@given(name=arm_names, n=sizes, batch=st.integers(1, 4))
def test_every_row_of_a_bout_is_the_row_of_its_stream(name, n, batch) -> None:
    played, _ = run(problems(batch), game=arm(name, group_size=n))
    assert [bout.draft for bout in played.bouts] == list(played.standalone.rollouts())
    if played.competitive:
        assert [bout.challenge for bout in played.bouts] == list(played.competitive.rollouts())


@quick
@given(name=arm_names, order=st.permutations(range(4)), step=st.integers(0, 1))
def test_permuting_problems_permutes_results(name, order, step) -> None:
    batch = problems(4)
    straight, _ = run(batch, step, arm(name, group_size=3))
    mixed, _ = run([batch[k] for k in order], step, arm(name, group_size=3))
    by_problem = {bout.draft.problem.id + str(bout.draft.index): bout for bout in straight.bouts}
    assert all(by_problem[bout.draft.problem.id + str(bout.draft.index)] == bout for bout in mixed.bouts)
    assert [group[0].problem for group in mixed.standalone.groups] == [batch[k] for k in order]


def test_seeds_differ_by_step_stage_policy_problem_and_index() -> None:
    seen = []
    for step in (0, 1, 2):
        _, sampler = run(problems(2), step, Game(group_size=3))
        seen += [event.request.seed for event in sampler.events if event.kind == "start"]
    _, sampler = run(problems(2), 0, Game(group_size=3, seed=1))
    seen += [event.request.seed for event in sampler.events if event.kind == "start"]
    assert len(set(seen)) == len(seen) == 4 * 12


def test_the_games_sampling_settings_reach_the_sampler() -> None:
    sampling = Sampling(temperature=0.7, max_tokens=40)
    _, sampler = run(problems(1), game=Game(group_size=2, sampling=sampling))
    assert {event.request.sampling for event in sampler.events} == {sampling}


def test_a_peek_is_capped_in_tokens() -> None:
    def long(request: Request) -> str:
        return "<think> t </think> " + "word " * 50 + "<answer>yes</answer>"

    played, _ = run(problems(1), game=Game(group_size=2, max_peek_tokens=7), answer=long)
    assert {len(bout.peek.split()) for bout in played.bouts} == {7}


@pytest.mark.parametrize(
    ("tests", "shown", "seen"),
    [
        (None, False, "Add. ```x```"),
        (UnitTests(), False, "Add. [withheld]"),
        (UnitTests(), True, "Add. ```x```"),
    ],
)
def test_code_in_the_summary_is_withheld_where_it_is_the_answer_unless_the_rules_show_it(
    tests: UnitTests | None, shown: bool, seen: str
) -> None:
    batch = [replace(problem, tests=tests) for problem in problems(1)]
    text = "<think>t</think>Add. ```x```<answer>yes</answer>"
    played, _ = run(batch, game=Game(group_size=2, show_code=shown), answer=lambda _: text)
    assert {bout.peek for bout in played.bouts} == {seen}


# -- order of events --------------------------------------------------------------------------------------------------


def uneven(request: Request) -> str:
    """Drafts of very different lengths; challenges short."""
    return "word " * (5 * (request.seed % 17)) + RIGHT


def spans(sampler: ScriptedSampler, policy: Policy) -> dict[Request, tuple[int, int]]:
    ends = {event.request: event.tick for event in sampler.events if event.kind == "end"}
    return {
        e.request: (e.tick, ends[e.request]) for e in sampler.events if e.kind == "start" and e.request.seat is policy
    }


def test_challenge_i_starts_when_draft_i_ends_and_waits_for_no_other() -> None:
    played, sampler = run(problems(3), game=Game(group_size=4), answer=uneven)
    started = {key.prompt: start for key, (start, _) in spans(sampler, Policy.B).items()}
    drafts = {key.seed: end for key, (_, end) in spans(sampler, Policy.A).items()}
    for bout in played.bouts:
        seed = seed_for(0, 0, "draft", Policy.A, bout.draft.problem.id, bout.draft.index)
        assert drafts[seed] in [
            s for key, (s, _) in spans(sampler, Policy.B).items() if key.prompt == bout.challenge.prompt
        ]
    assert min(started.values()) < max(drafts.values()), "some challenge started before the slowest draft ended"


def test_with_a_barrier_no_challenge_starts_before_the_slowest_draft_ends() -> None:
    _, sampler = run(problems(3), game=Game(group_size=4, wait_for_all_drafts=True), answer=uneven)
    slowest = max(end for _, end in spans(sampler, Policy.A).values())
    assert {start for start, _ in spans(sampler, Policy.B).values()} == {slowest}


def test_barrier_and_streaming_give_the_same_bouts() -> None:
    streamed, _ = run(problems(3), game=Game(group_size=4))
    barred, _ = run(problems(3), game=Game(group_size=4, wait_for_all_drafts=True))
    assert streamed == barred


def test_a_slow_verdict_does_not_hold_back_the_challenge() -> None:
    order: list[str] = []

    def answer(request: Request) -> str:
        order.append("challenge" if request.seat is Policy.B else "draft")
        return RIGHT

    async def slow(problem, completion) -> Verdict:
        await until(lambda: order.count("challenge") >= 2)
        order.append("verdict")
        return await read_tag(problem, completion)

    run(problems(1), game=Game(group_size=2), answer=answer, verify=slow)
    assert order == ["draft", "draft", "challenge", "challenge", "verdict", "verdict", "verdict", "verdict"]


# -- budget -----------------------------------------------------------------------------------------------------------


@quick
@given(name=arm_names, n=sizes, batch=st.integers(1, 4), step=st.integers(0, 2))
def test_the_matched_budget_holds_for_every_arm(name, n, batch, step) -> None:
    played, sampler = run(problems(batch), step, arm(name, group_size=n))
    ledger = Ledger()
    ledger.charge(played.bouts)
    assert ledger.rollouts_per_problem() == {2 * n}
    asked = [event.request for event in sampler.events if event.kind == "start"]
    assert ledger.total().rollouts == len(asked) == 2 * n * batch


def test_the_ledger_counts_every_token_by_stage_and_policy() -> None:
    ledger = Ledger()
    for step in (0, 1):
        played, _ = run(problems(2), step, Game(group_size=2))
        ledger.charge(played.bouts)
    assert set(ledger.by_name()) == {"draft/a", "draft/b", "challenge/a", "challenge/b"}
    assert ledger.rollouts_per_problem() == {4}
    last, _ = run(problems(2), 1, Game(group_size=2))
    drafted = [bout.draft.completion for bout in last.bouts]
    entry = ledger.by_name()["draft/b"]
    generated, prefilled = sum(c.generated_tokens for c in drafted), sum(c.prompt_tokens for c in drafted)
    assert entry == Entry(rollouts=4, generated=generated, prefilled=prefilled)
    assert ledger.by_name()["challenge/a"].prefilled > entry.prefilled, "a challenger prefills the summary too"


# -- broken machines --------------------------------------------------------------------------------------------------


def failing_on(*seeds: int):
    async def verify(problem, completion) -> Verdict:
        judged = await read_tag(problem, completion)
        return (
            Verdict(False, True, Reason.INFRA) if any(f"recap {seed} " in completion.text for seed in seeds) else judged
        )

    return verify


def varied(request: Request) -> str:
    return f"<think> t </think> recap {request.seed} <answer>{'yes' if request.seed % 2 else 'no'}</answer>"


def test_a_draft_without_a_verdict_masks_its_row_and_its_bout() -> None:
    broken = seed_for(0, 0, "draft", Policy.A, "p0", 1)
    played, _ = run(problems(1), game=Game(group_size=6), answer=varied, verify=failing_on(broken))
    for bout in played.bouts:
        unknown = bout.draft.index == 1
        assert (bout.draft.reward is None) == (bout.challenge.reward is None) == unknown
        assert (bout.draft.advantage is None) == (bout.challenge.advantage is None) == unknown


def test_a_sampler_that_fails_stops_the_step() -> None:
    def broken(request: Request) -> str:
        if request.seat is Policy.B:
            raise RuntimeError("engine died")
        return by_seed(request)

    with pytest.raises(ExceptionGroup):
        run(problems(2), game=Game(group_size=2), answer=broken)


def test_with_a_barrier_a_failing_draft_does_not_hang() -> None:
    def broken(request: Request) -> str:
        raise RuntimeError("engine died")

    sampler = ScriptedSampler(broken)
    game = Game(group_size=2, wait_for_all_drafts=True)
    with pytest.raises(ExceptionGroup):
        asyncio.run(asyncio.wait_for(play(problems(2), 0, game, sampler, read_tag), 5))


def test_a_dead_group_is_dropped_and_a_live_one_kept() -> None:
    def half(request: Request) -> str:
        return RIGHT if "number 0" in told(request) else by_seed(request)

    played, _ = run(problems(2), game=replace(Game(), group_size=8), answer=half)
    dead, live = played.standalone.groups
    assert {rollout.advantage for rollout in dead} == {None}
    assert all(rollout.advantage is not None for rollout in live)
    assert all(rollout.reward is not None for rollout in dead), "a dropped group is still logged with its rewards"
