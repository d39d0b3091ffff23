"""Where the bonus acts, and how much: groups whose advantages would be different without it, and by which factor.

The bonus is all that a stack adds to correctness and format: conversion, margin, tiebreak. Where it is the same for
every right challenge of a group, it stretches the rewards and the standard deviation divides that out: the group learns
what it would have learnt without a rival. The format term is left out of the comparison, since a malformed row makes
such a stretch visible without giving it a direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from agon.game.advantage import advantages
from agon.game.rules import Game
from agon.types import Bout, Reason, Rollout, Verdict

SAME = 1e-4
"""Advantages closer than this are the same."""
RIGHT, WRONG = Verdict(True, True, Reason.CORRECT), Verdict(False, True, Reason.WRONG)


def bonus_groups(groups: Iterable[Sequence[Rollout]]) -> int:
    """In how many groups of challenges the bonus acts."""
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


class Context(NamedTuple):
    """A challenge as the bonus sees it: correctness and bonus, as paid and as they would have been paid."""

    draft_right: bool
    paid: float
    if_right: float
    if_wrong: float


def bonus_weight(groups: Iterable[Sequence[Context]]) -> float | None:
    """How much more it pays to be right against a wrong draft than against a right one.

    A challenge pulls on its context with A(right) - A(wrong), the others of its group as they were. This is the mean
    pull on contexts with a wrong draft over the mean on those with a right draft, in groups that have both. None if
    there are none, or if nothing pulls on right drafts: where all others of a group are paid alike, the standard
    deviation divides out by how much a row is paid less. 1 is no tilt: without a bonus it is close to 1
    (docs/competition.md).
    """
    mixed = [group for group in groups if {context.draft_right for context in group} == {True, False}]
    if not mixed:
        return None
    on_right, on_wrong = (fmean(_mean_pull(group, draft_right) for group in mixed) for draft_right in (True, False))
    return on_wrong / on_right if on_right > SAME else None  # what is below is rounding


def _mean_pull(group: Sequence[Context], draft_right: bool) -> float:
    """Over the challenges of a group that met a right draft, or a wrong one."""
    paid = [context.paid for context in group]
    pulls = []
    for i, context in enumerate(group):
        if context.draft_right is draft_right:
            right, wrong = ([*paid[:i], end, *paid[i + 1 :]] for end in (context.if_right, context.if_wrong))
            pulls.append((advantages(right, epsilon=0.0)[i] or 0.0) - (advantages(wrong, epsilon=0.0)[i] or 0.0))
    return fmean(pulls)


def contexts(group: Sequence[Bout], game: Game) -> list[Context]:
    """The graded challenges of one problem's bouts; the draft is the one that was read."""
    found = []
    for bout in group:
        if bout.challenge is None or bout.rival is None or not bout.draft.verdict.graded:
            continue
        rival, ends = group[bout.rival].draft, (bout.challenge.verdict, RIGHT, WRONG)
        rewards = [game.challenge_reward(replace(bout.challenge, verdict=end), rival) for end in ends]
        paid = [reward.correctness + reward.bonus for reward in rewards if reward]
        if len(paid) == len(ends):
            found.append(Context(bout.draft.verdict.correct, *paid))
    return found
