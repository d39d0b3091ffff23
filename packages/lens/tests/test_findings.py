"""A diagnosis as sentences."""

from __future__ import annotations

import pytest

from agon_lens import GroupLog, RewardRow, diagnose
from agon_lens.dead import Cause
from agon_lens.findings import MEANING, findings, summary
from agon_lens.groups import Group
from lens_logs import ALIVE, rows


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(Cause)


def test_one_group_is_not_plural() -> None:
    log = GroupLog("log", ("correctness", "format"), (rows((1.0, 0.5), (0.0, 0.5)),))
    text = "\n".join(summary(diagnose(log)))
    assert "log: 1 group of 2, 2 rows" in text
    assert "`correctness` alone keeps 1 group alive" in text
    assert "1 of 1 group (100%) is dead" in text_of(rows((0.0, 0.5), (0.0, 0.5)))


def test_small_numbers_are_not_0_and_rounding_errors_are() -> None:
    log = GroupLog("log", ("tiny", "constant"), (rows((0.0004, 0.1 + 0.2), (0.0, 0.1 + 0.2)),))
    table = [line.split() for line in summary(diagnose(log))[2:5]]
    assert table[1][-3:] == ["0.0002", "0", "0.0004"]
    assert table[2] == ["constant", "group-constant", "0%", "0", "0", "0%", "0.3", "0.3", "0.3"]


def test_names_from_a_log_do_not_move_the_cursor() -> None:
    log = GroupLog("log\x1b[2J", ("a\x1b[2J",), (rows((1.0,), (1.0,)),), notes=("taken: \x1b[2J",))
    assert "\x1b" not in "\n".join(summary(diagnose(log)))


def text_of(*groups: Group) -> str:
    return "\n".join(findings(diagnose(GroupLog("log", ("correctness", "format"), groups))))


def test_findings_name_the_inert_term_and_the_dead_groups() -> None:
    text = text_of(*[rows((2.0, 0.5), (0.0, 0.5))] * 3, rows((0.0, 0.5), (0.0, 0.5)))
    assert "`format` never varies within a group, so the group's mean cancels it. It is always 0.5" in text
    assert "1 of 4 groups (25%) is dead: its tokens" in text
    assert "`correctness` alone keeps 3 groups alive" in text
    assert "`correctness` is inert" not in text


def test_findings_question_a_wrong_group_column() -> None:
    assert "No group has two rows" in text_of(rows((2.0, 0.5)), rows((0.0, 0.5)))


def test_findings_question_terms_that_do_not_add_up() -> None:
    assert "not among the terms" in text_of((RewardRow((0.0, 0.0), 1.0), RewardRow((0.0, 0.0), 2.0)))
    assert "not among the terms" not in text_of(ALIVE)


@pytest.mark.parametrize(("factor", "agree"), [(1.0, True), (1.5, False)])
def test_logged_advantages_are_compared_with_ours(factor: float, agree: bool) -> None:
    group = tuple(RewardRow((v, 0.0), v, advantage=factor * a) for v, a in [(2.0, 0.70706), (0.0, -0.70706)])
    found = diagnose(GroupLog("log", ("correctness", "format"), (group,)))
    assert found.advantages_agree is agree
    assert ("advantages are not the totals" in "\n".join(findings(found))) is not agree
