"""Units are compared only if both are known."""

from __future__ import annotations

import pytest

from agon.verify.math import units


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("cm", "cm", False),
        ("cm", "m", True),
        ("cm", "", False),
        ("cm^2", "cm", True),
        ("dollar", "cent", True),
        ("apple", "m", False),
    ],
)
def test_units_clash_only_when_both_are_known(one: str, other: str, clash: bool) -> None:
    assert units.clash(one, other) is clash
