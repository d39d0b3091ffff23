"""ALGORITHM 1 of the paper, lines 2 to 9: one step of the game. Line 10, the two GRPO updates, belongs to the learner.

Every arm and control goes through `play`; what differs between them is a value of the `Game`. Departures from the
paper: challenge b_i starts the moment draft a_i ends (it needs nothing else); verdicts are awaited while challenges
are drawn; both policies learn from samples drawn before either moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agon.game.advantage import advantages
from agon.game.prompts import draft_prompt
from agon.game.rules import Game
from agon.protocols import CompletionSource, Verify
from agon.types import Bout, Completion, Played, Policy, Problem, Prompt, Request, Rollout, Stream, seed_for


async def play(batch: Sequence[Problem], step: int, game: Game, sampler: CompletionSource, verify: Verify) -> Played:
    """Draft, challenge, score: both streams of one step."""
    # line 2: (draft, chal) <- (A, B) if t even else (B, A)
    drafter, challenger = game.roles_at(step)
    everyone = asyncio.Barrier(len(batch) * game.drafts_per_problem) if game.wait_for_all_drafts else None

    async def draw(stage: str, policy: Policy, x: Problem, i: int, prompt: Prompt) -> Completion:
        seed = seed_for(game.seed, step, stage, policy, x.id, i)
        return await sampler.sample(Request(prompt, policy, seed, game.sampling))

    async def challenge(x: Problem, i: int, a: Completion) -> tuple[Rollout | None, str | None]:
        if not game.two_stages:
            return None, None
        if everyone:
            await everyone.wait()
        seen = game.peek(x, a, sampler.clip)
        prompt = game.challenge_prompt(x, seen)
        b = await draw("challenge", challenger, x, i, prompt)
        return Rollout(x, i, challenger, prompt, b, await verify(x, b)), seen

    async def bout(x: Problem, i: int) -> Bout:
        # line 4: {a_i} ~ pi_draft(. | x)                      standalone rollouts, plain prompt
        prompt = draft_prompt(x)
        a = await draw("draft", drafter, x, i, prompt)
        # line 6: {b_i} ~ pi_chal(. | x, a_i)                  one per pair: challenger b_i sees a_i's summary
        verdict, (b, seen) = await asyncio.gather(verify(x, a), challenge(x, i, a))
        return Bout(Rollout(x, i, drafter, prompt, a, verdict), b, seen, game.rival_of(i) if b else None)

    # line 3: for all x in batch do
    async with asyncio.TaskGroup() as tasks:
        drawn = [[tasks.create_task(bout(x, i)) for i in range(game.drafts_per_problem)] for x in batch]
    groups = [score([task.result() for task in group], game) for group in drawn]
    # line 9: end for
    bouts = tuple(bout for group in groups for bout in group)
    standalone = Stream("standalone", drafter, tuple(tuple(bout.draft for bout in group) for group in groups))
    if not game.two_stages:
        return Played(step, drafter, challenger, bouts, standalone, None)
    met = tuple(tuple(bout.challenge for bout in group if bout.challenge) for group in groups)
    return Played(step, drafter, challenger, bouts, standalone, Stream("competitive", challenger, met))


def score(group: Sequence[Bout], game: Game) -> list[Bout]:
    """Rewards and advantages of one problem's bouts."""
    # line 5: R(a_i) <- reward via Eq. 2                       correctness + format, no opponent term
    drafts = [replace(bout.draft, reward=game.draft_reward(bout.draft)) for bout in group]
    # line 7: R(b_i) <- reward via Eq. 2 / Eq. 3 by mode
    challenges = [
        replace(bout.challenge, reward=game.challenge_reward(bout.challenge, drafts[bout.rival]))
        for bout in group
        if bout.challenge is not None and bout.rival is not None
    ]
    # line 8: group-relative advantages of {R(a_i)} and of {R(b_i)}                            Eq. 1, per group
    drafts, challenges = with_advantages(drafts), with_advantages(challenges)
    return [
        replace(bout, draft=drafts[n], challenge=challenges[n] if challenges else None) for n, bout in enumerate(group)
    ]


def with_advantages(group: Sequence[Rollout]) -> list[Rollout]:
    """Equation 1 over one group; rows without signal get None."""
    rewards = [rollout.reward.total if rollout.reward is not None else None for rollout in group]
    return [replace(rollout, advantage=value) for rollout, value in zip(group, advantages(rewards), strict=True)]
