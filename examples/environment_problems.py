"""Play on a problem of an environment: the environment scores the answers, and leaks of withheld answers are counted.

python examples/environment_problems.py
"""

import asyncio

from agon import Game, Request, ScriptedSampler, load_verifier, play
from agon.config import Source
from agon.data import load
from agon.game.exchange import exchange

(problem,) = load(Source(env="reasoning-gym:chain_sum", take=1))


def answer(request: Request) -> str:
    """A policy that is right, wrong, or gives no answer block, by its seed."""
    right, wrong = problem.answer, "0"
    summaries = [f"<answer>{right}</answer>", f"It is {wrong}. <answer>{wrong}</answer>", f"The sum is {right}."]
    return f"<think>adding up</think> {summaries[request.seed % 3]}"


with load_verifier("environment", workers=1) as verify:
    played = asyncio.run(play([problem], 0, Game(group_size=4), ScriptedSampler(answer), verify))
for bout in played.bouts:
    for rollout in bout.rollouts:
        print(f"{rollout.policy.name}: {rollout.verdict.reason:<9} paid {rollout.reward.total}")
counts = exchange(played.bouts)
print(f"{counts.leaks} of {counts.shown} peeks state the answer")
