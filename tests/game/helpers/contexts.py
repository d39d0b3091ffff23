"""Groups of bouts with given outcomes, and the exact pull of a game on contexts with right and with wrong drafts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from agon.algorithm import score
from agon.game.rules import Game
from agon.types import Bout, Completion, Policy, Problem, Prompt, Rollout, Verdict, Version
from tests.game.helpers import verdict

PROBLEM = Problem("p", "why", "42")


def group(drafts: Sequence[bool], challenges: Sequence[bool]) -> list[Bout]:
    """Bouts of one problem with these outcomes, each paid against the draft that it read."""
    return [
        Bout(rollout(Policy.A, i, verdict(d)), rollout(Policy.B, i, verdict(c)), "recap", i)
        for i, (d, c) in enumerate(zip(drafts, challenges, strict=True))
    ]


def rollout(policy: Policy, index: int, judged: Verdict) -> Rollout:
    return Rollout(PROBLEM, index, policy, Prompt(()), Completion("", Version.of(policy, 0, "x"), 1, 1), judged)


def pulls(game: Game, size: int, wrong: int, kept: float, converted: float) -> tuple[float | None, float | None]:
    """E_others[A(right) - A(wrong)] of a challenge that met a right draft, and of one that met a wrong draft.

    `size` challenges, `wrong` of them of wrong drafts; a challenge is right with probability `kept` or `converted`.
    Every outcome of the others goes through `algorithm.score`. None where there is no such draft.
    """
    drafts = [False] * wrong + [True] * (size - wrong)
    chances = [kept if draft else converted for draft in drafts]

    def pull(i: int) -> float:
        total = 0.0
        for others in product((False, True), repeat=size - 1):
            rest = [*chances[:i], *chances[i + 1 :]]
            chance = math.prod(p if c else 1 - p for c, p in zip(others, rest, strict=True))
            total += chance * (advantage(i, others, True) - advantage(i, others, False))
        return total

    def advantage(i: int, others: tuple[bool, ...], mine: bool) -> float:
        bouts = score(group(drafts, [*others[:i], mine, *others[i:]]), game)
        challenge = bouts[i].challenge
        assert challenge is not None
        return challenge.advantage or 0.0

    return (pull(size - 1) if wrong < size else None), (pull(0) if wrong else None)
