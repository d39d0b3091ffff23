"""Why a group is dead: one cause for each, and every dead group is counted once."""

from __future__ import annotations

import pytest

from agon_lens import GroupLog, RewardRow
from agon_lens.dead import Cause, causes
from agon_lens.groups import Group
from lens_logs import ALIVE, rows


def only(group: Group) -> dict[Cause, int]:
    return dict(causes(GroupLog("log", ("correctness", "format"), (ALIVE, group))))


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        ((RewardRow((0.0, 0.0), None), RewardRow((2.0, 0.5), 2.5)), Cause.UNGRADED),
        (rows((2.0, 0.0), (1.5, 0.5)), Cause.CANCELLING),
        ((RewardRow((0.0, 0.5), 0.5, True), RewardRow((0.0, 0.5), 0.5, False)), Cause.UNPAID),
        (rows((0.0, 0.0), (0.0, 0.0), correct=False, truncated=True), Cause.TRUNCATED),
        (rows((2.0, 0.5), (2.0, 0.5), correct=True), Cause.ALL_RIGHT),
        (rows((0.0, 0.5), (0.0, 0.5), correct=False), Cause.ALL_WRONG),
        (rows((2.0, 0.5), (2.0, 0.5)), Cause.SATURATED),
        (rows((0.0, 0.0), (0.0, 0.0)), Cause.FLOORED),
        (rows((0.0, 0.5), (0.0, 0.5)), Cause.CONSTANT),
    ],
)
def test_every_cause_is_distinguished(group: Group, cause: Cause) -> None:
    assert only(group) == {cause: 1}


def test_a_live_group_has_no_cause() -> None:
    assert only(rows((2.0, 0.5), (0.0, 0.5), correct=None)) == {}


def test_an_ungraded_row_does_not_keep_a_group_alive() -> None:
    graded = rows((2.0, 0.5), (2.0, 0.5), correct=True)
    assert only((*graded, RewardRow((0.0, 0.0), None, False))) == {Cause.ALL_RIGHT: 1}


def test_float32_noise_is_not_signal() -> None:
    assert only(rows((0.1, 0.2), (0.30000001192092896, 0.0))) == {Cause.CANCELLING: 1}


def test_a_row_that_was_not_verified_is_neither_right_nor_wrong() -> None:
    for first, second in ((False, None), (None, False)):
        group = (RewardRow((0.0, 0.5), 0.5, first), RewardRow((0.0, 0.5), 0.5, second))
        assert causes(GroupLog("log", ("correctness", "format"), (ALIVE, group))) == {Cause.ALL_WRONG: 1}
