"""Who drafts and who challenges (Algorithm 1, line 2)."""

from __future__ import annotations

from agon.types import Policy


def rotate(step: int) -> tuple[Policy, Policy]:
    """(drafter, challenger): A drafts on even steps, B on odd ones."""
    return (Policy.A, Policy.B) if step % 2 == 0 else (Policy.B, Policy.A)


def fixed(step: int) -> tuple[Policy, Policy]:
    """(drafter, challenger): A always drafts (the role-assignment ablation)."""
    return Policy.A, Policy.B


def alone(step: int) -> tuple[Policy, Policy]:
    """(drafter, challenger) when there is one policy: A plays both."""
    return Policy.A, Policy.A
