"""A small scripted world: problems with a known answer, policies that are right or wrong by seed, a verifier that
reads the tag.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from agon.algorithm import play
from agon.engine.scripted import ScriptedSampler
from agon.game.rules import Game
from agon.types import Completion, Played, Problem, Reason, Request, Verdict

RIGHT = "<think> try this </think> the recap says so <answer>yes</answer>"
WRONG = "<think> try that </think> the recap says otherwise <answer>no</answer>"
MALFORMED_RIGHT = "the recap alone <answer>yes</answer>"


def problems(n: int) -> list[Problem]:
    return [Problem(f"p{k}", f"question number {k}", "yes") for k in range(n)]


def by_seed(request: Request) -> str:
    """Right, wrong, malformed or long: decided by the request's seed alone."""
    rng = random.Random(request.seed)
    text = rng.choice([RIGHT, WRONG, WRONG, MALFORMED_RIGHT])
    return "pad " * rng.randrange(6) + text if text is MALFORMED_RIGHT else text


async def read_tag(problem: Problem, completion: Completion) -> Verdict:
    right = f"<answer>{problem.answer}</answer>" in completion.text
    return Verdict(right, completion.text.startswith("<think>"), Reason.CORRECT if right else Reason.WRONG)


def run(
    batch: list[Problem],
    step: int = 0,
    game: Game | None = None,
    answer: Callable[[Request], str] = by_seed,
    verify=read_tag,
) -> tuple[Played, ScriptedSampler]:
    sampler = ScriptedSampler(answer)
    return asyncio.run(play(batch, step, game or Game(group_size=4), sampler, verify)), sampler


def verdict(correct: bool, well_formed: bool = True) -> Verdict:
    return Verdict(correct, well_formed, Reason.CORRECT if correct else Reason.WRONG)


INFRA = Verdict(False, True, Reason.INFRA)
