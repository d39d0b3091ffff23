"""Where the bonus bites: groups whose advantages would be different without it.

The bonus is all that a stack adds to correctness and format: conversion, margin, tiebreak. Where it is the same for
every right challenge of a group, it stretches the rewards and the standard deviation divides that out: the group learns
what it would have learnt without a rival. The format term is left out of the comparison, since a malformed row makes
such a stretch visible without giving it a direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agon.game.advantage import advantages
from agon.types import Rollout

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
