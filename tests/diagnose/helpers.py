"""Small groups of rewards."""

from __future__ import annotations

from agon.diagnose import RewardRow
from agon.diagnose.groups import Group

ALIVE = (RewardRow((2.0, 0.5), 2.5, True, False), RewardRow((0.0, 0.0), 0.0, False, False))


def rows(*terms: tuple[float, ...], correct: bool | None = None, truncated: bool | None = None) -> Group:
    return tuple(RewardRow(paid, sum(paid), correct, truncated) for paid in terms)
