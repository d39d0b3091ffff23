"""The experiment matrix as data: every arm of the paper and ours, each one field away from its parent.

    agon                            two policies, the rival's draft shown, paired per rollout, stack adv, roles rotate
    |-- coop                        stack coop
    |   |-- plain-pair              show_draft false: two policies trained apart, each on plain rollouts (ours)
    |   `-- self-refine             opponent self: one policy reads its own draft, both streams train it
    |       `-- grpo                opponent none: no second stage, all 2N rollouts plain
    |-- margin                      stack margin
    |-- fixed-roles                 roles fixed
    |-- tiebreak                    tiebreak_weight 0.5
    |-- mispaired                   pairing next_draft: shown a_i, paid on the outcome of another draft (ours)
    `-- hidden-drafts               show_draft false (the cell that the paper leaves open)
        `-- shared-opponent         pairing shared: one draft for the whole group (the paper's inert cell)

Every arm draws 2N rollouts per problem (the matched budget of section 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agon.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the paper's tables: a parent and the one field in which it differs."""

    name: str
    parent: str | None
    change: Mapping[str, Any]
    about: str


ROOT: Mapping[str, Any] = {
    "opponent": "rival",
    "show_draft": True,
    "pairing": "per_rollout",
    "stack": "adv",
    "roles": "rotate",
    "tiebreak_weight": 0.0,
}

ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("agon", None, {}, "coop with a bonus for solving what the draft got wrong: the paper's method"),
        Arm("coop", "agon", {"stack": "coop"}, "two policies, each reads the other's draft; no bonus"),
        Arm("self-refine", "coop", {"opponent": "self"}, "one policy reads its own draft"),
        Arm("grpo", "self-refine", {"opponent": "none"}, "plain GRPO: one policy, as many rollouts as the others"),
        Arm("margin", "agon", {"stack": "margin"}, "the naive margin c(b)-c(a) instead of the conversion bonus"),
        Arm("fixed-roles", "agon", {"roles": "fixed"}, "A always drafts, B always challenges"),
        Arm("tiebreak", "agon", {"tiebreak_weight": 0.5}, "the density lever: shorter of two right answers is paid"),
        Arm(
            "hidden-drafts",
            "agon",
            {"show_draft": False},
            "competition without visible exchange, one hidden draft per rollout",
        ),
        Arm("shared-opponent", "hidden-drafts", {"pairing": "shared"}, "one hidden draft for the whole group: inert"),
        Arm(
            "mispaired",
            "agon",
            {"pairing": "next_draft"},
            "shown a_i, paid on another draft: pressure without difficulty",
        ),
        Arm("plain-pair", "coop", {"show_draft": False}, "two policies trained apart, each on plain rollouts"),
    )
}
MAIN = ("grpo", "self-refine", "coop", "agon")
"""The arms to start with, from plain GRPO to the whole method, one step at a time. The others are ablations."""


def resolve(name: str) -> dict[str, Any]:
    """The game fields of an arm: its parent's, with its one change."""
    if name not in ARMS:
        raise ConfigError(f"there is no arm {name!r}", fix=f"choose one of: {', '.join(ARMS)}")
    arm = ARMS[name]
    inherited = dict(ROOT) if arm.parent is None else resolve(arm.parent)
    return inherited | dict(arm.change)
