"""The diagnosis of a whole log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agon_lens import GroupLog, RewardRow
from agon_lens.diagnosis import diagnose_log as diagnose


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1))
def test_dead_and_live_groups_are_all_groups(table: list[list[float]]) -> None:
    log = GroupLog("log", ("reward",), tuple(tuple(RewardRow((v,), v) for v in group) for group in table))
    assert diagnose(log).dead_groups == sum(len(set(group)) < 2 for group in table)


def test_the_scale_is_inferred_from_the_logged_advantages() -> None:
    group = tuple(RewardRow((v,), v, advantage=v - 2.0) for v in (4.0, 0.0, 4.0, 0.0))
    assert diagnose(GroupLog("log", ("reward",), (group,))).scale == "none"
