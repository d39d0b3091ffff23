"""Two students who were taught different things: the wrong facts of the base, dealt out between A and B.

A is taught two fifths of them, B two other fifths, and the last fifth nobody: a control inside every run, since what
nobody knows cannot be learnt from a rival. None of this is in the paper, which hopes for different blind spots and
does not measure them.
"""

from __future__ import annotations

import random
from enum import StrEnum

from agon.data.tabletop.lessons import Beliefs, Fact
from agon.types import Policy, seed_for


class KnownTo(StrEnum):
    """Who knows a fact before training."""

    BOTH = "both"
    A = "a"
    B = "b"
    NOBODY = "nobody"


def known_to(base: Beliefs) -> dict[Fact, KnownTo]:
    """Who knows each of the base's wrong facts after the lessons; what is not among them both know."""
    order = sorted(base.wrong)
    random.Random(seed_for("halves")).shuffle(order)
    share = 2 * len(order) // 5
    return {
        fact: KnownTo.A if place < share else KnownTo.B if place < 2 * share else KnownTo.NOBODY
        for place, fact in enumerate(order)
    }


def beliefs_of(policy: Policy, base: Beliefs) -> Beliefs:
    """The base's beliefs without the facts that a policy was taught."""
    return base.without([fact for fact, who in known_to(base).items() if who == policy.value])
