"""Which draft pays which challenge (section 4.4): `rival_of(i, n)` is the index of the draft that b_i is scored
against.

What b_i is *shown* is always a_i, or nothing; only the draft that is *paid against* depends on the pairing.
"""

from __future__ import annotations

from collections.abc import Callable


def per_rollout(i: int, n: int) -> int:
    """b_i meets its own a_i: outcomes vary within the group, which makes the bonus trainable."""
    return i


def shared(i: int, n: int) -> int:
    """Every b_i meets a_0: the bonus is group-constant, the paper's inert cell. Which draft is ours to choose; it is
    the first."""
    return 0


def next_draft(i: int, n: int) -> int:
    """b_i is paid on the next draft, a_(i+1): the same pressure, detached from the difficulty of what it reads
    (ours)."""
    return (i + 1) % n


PAIRINGS: dict[str, Callable[[int, int], int]] = {
    "per_rollout": per_rollout,
    "shared": shared,
    "next_draft": next_draft,
}
