"""Equation 1: group-relative advantages, and what a group without signal looks like.

Departures from the paper, both TRL's: the standard deviation is the sample one (n - 1), and 1e-4 is added to it. The
theorem tests use epsilon 0. A row whose reward is unknown is left out of its group; a dead group gives None to every
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

EPSILON = 1e-4


def advantages(rewards: Sequence[float | None], epsilon: float = EPSILON) -> list[float | None]:
    """A_i = (R_i - mean) / (std + epsilon) within one group; None where the row carries no signal."""
    known = [reward for reward in rewards if reward is not None]
    if is_dead(known):
        return [None] * len(rewards)
    mean = fmean(known)
    std = (sum((reward - mean) ** 2 for reward in known) / (len(known) - 1)) ** 0.5
    return [None if reward is None else (reward - mean) / (std + epsilon) for reward in rewards]


def is_dead(known: Sequence[float]) -> bool:
    """No variance, no signal: all alike (all right or all wrong), or fewer than two rows with a reward."""
    return len(known) < 2 or min(known) == max(known)
