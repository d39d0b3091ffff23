"""The arms tree: each child changes exactly one field of its parent."""

from __future__ import annotations

import pytest

from agon.config.arms import ARMS, ROOT, resolve
from agon.errors import ConfigError

DESIGN = {
    "agon": None, "coop": "agon", "margin": "agon", "fixed-roles": "agon", "tiebreak": "agon", "hidden-drafts": "agon",
    "shared-opponent": "hidden-drafts", "mispaired": "agon", "self-refine": "coop", "grpo": "self-refine",
    "plain-pair": "coop",
}  # fmt: skip


def test_the_tree_is_the_documented_one() -> None:
    assert {name: arm.parent for name, arm in ARMS.items()} == DESIGN


@pytest.mark.parametrize("name", [name for name in ARMS if ARMS[name].parent])
def test_an_arm_changes_exactly_one_field_of_its_parent(name) -> None:
    parent, child = resolve(ARMS[name].parent or ""), resolve(name)
    assert set(child) == set(ROOT)
    assert sum(parent[field] != child[field] for field in ROOT) == 1
    assert len(ARMS[name].change) == 1


def test_no_two_arms_are_the_same() -> None:
    assert len({tuple(sorted(resolve(name).items())) for name in ARMS}) == len(ARMS)


def test_an_unknown_arm_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("agonn")
    assert "agon" in caught.value.fix
