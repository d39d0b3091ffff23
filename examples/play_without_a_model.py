"""Play one step of the game without a model: scripted policies, a verifier of one line, and what each was paid.

python examples/play_without_a_model.py
"""

import asyncio

from agon import Completion, Game, Problem, Reason, Request, ScriptedSampler, Verdict, play


def answer(request: Request) -> str:
    """A policy that is right two times in three, by its seed."""
    guess = "42" if request.seed % 3 else "41"
    return f"<think>6 times 7</think> Six sevens. <answer>{guess}</answer>"


async def verify(problem: Problem, completion: Completion) -> Verdict:
    right = f"<answer>{problem.answer}</answer>" in completion.text
    return Verdict(right, well_formed=True, reason=Reason.CORRECT if right else Reason.WRONG)


problem = Problem("p2", "What is 6 x 7?", "42")
played = asyncio.run(play([problem], 0, Game(group_size=4), ScriptedSampler(answer), verify))
for bout in played.bouts:
    for rollout in bout.rollouts:
        reward, reason = rollout.reward, rollout.verdict.reason
        bonus = "  (conversion: the rival was wrong)" if reward.conversion else ""
        print(f"{rollout.policy.name}: {reason:<8} paid {reward.total}{bonus}")
