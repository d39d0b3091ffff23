"""Where the bonus bites, and how much: groups whose advantages would be different without it, and by which factor.

The bonus is all that a stack adds to correctness and format: conversion, margin, tiebreak. Where it is the same for
every right challenge of a group, it stretches the rewards and the standard deviation divides that out: the group learns
what it would have learnt without a rival. The format term is left out of the comparison, since a malformed row makes
such a stretch visible without giving it a direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from agon.game.advantage import advantages
from agon.game.rules import Game
from agon.types import Bout, Reason, Rollout, Verdict

SAME = 1e-4
"""Advantages closer than this are the same."""


def bonus_groups(groups: Iterable[Sequence[Rollout]]) -> int:
    """In how many groups of challenges the bonus bites."""
    return sum(
        bites(
            [None if row.reward is None else row.reward.correctness for row in group],
            [None if row.reward is None else row.reward.bonus for row in group],
        )
        for group in groups
    )


def bites(correctness: Sequence[float | None], bonus: Sequence[float | None]) -> bool:
    """Whether the bonus changes an advantage of a group; rows without a reward are None in both."""
    paid = [None if c is None or b is None else c + b for c, b in zip(correctness, bonus, strict=True)]
    with_bonus, without = (advantages(rewards, epsilon=0.0) for rewards in (paid, correctness))
    return any(abs((one or 0.0) - (two or 0.0)) > SAME for one, two in zip(with_bonus, without, strict=True))


def bonus_weight(groups: Iterable[Sequence[Bout]], game: Game) -> float | None:
    """How much more it pays to be right against a wrong draft than against a right one.

    A challenge pulls on its context with A(right) - A(wrong), the others of its group as they were. This is the mean
    pull on contexts with a wrong draft over the mean on those with a right draft, in groups that have both; None if
    there are none. 1 is no tilt: without a bonus it is close to 1 (docs/competition.md).
    """
    mixed = [pulls for group in groups if all(pulls := context_pulls(group, game))]
    if not mixed:
        return None
    on_right, on_wrong = (fmean(fmean(pulls[side]) for pulls in mixed) for side in (0, 1))
    return on_wrong / on_right if on_right else None


def context_pulls(group: Sequence[Bout], game: Game) -> tuple[list[float], list[float]]:
    """A(right) - A(wrong) of each challenge of a group: of those that met a right draft, and of those that met a
    wrong one. The format term is left out."""
    met = [bout for bout in group if bout.challenge and bout.rival is not None]
    paid = [_paid(bout, group, game, None) for bout in met]
    pulls: tuple[list[float], list[float]] = ([], [])
    for i, bout in enumerate(met):
        if paid[i] is None:
            continue
        ends = (advantages([*paid[:i], _paid(bout, group, game, c), *paid[i + 1 :]], epsilon=0.0)[i] for c in (1, 0))
        right, wrong = (end or 0.0 for end in ends)
        pulls[not bout.draft.verdict.correct].append(right - wrong)
    return pulls


def _paid(bout: Bout, group: Sequence[Bout], game: Game, correct: int | None) -> float | None:
    """Correctness and bonus of a challenge: as it was judged, or as if it had been right or wrong."""
    assert bout.challenge is not None
    assert bout.rival is not None
    challenge = bout.challenge
    if correct is not None:
        verdict = Verdict(bool(correct), True, Reason.CORRECT if correct else Reason.WRONG)
        challenge = replace(challenge, verdict=verdict)
    reward = game.challenge_reward(challenge, group[bout.rival].draft)
    return None if reward is None else reward.correctness + reward.bonus
