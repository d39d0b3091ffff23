"""A diagnosis as sentences."""

from __future__ import annotations

import pytest

from agon.diagnose import GroupLog, RewardRow, diagnose
from agon.diagnose.dead import Cause
from agon.diagnose.findings import MEANING, findings
from agon.diagnose.groups import Group

from .helpers import ALIVE, rows


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(Cause)


def text_of(*groups: Group) -> str:
    return "\n".join(findings(diagnose(GroupLog("log", ("correctness", "format"), groups))))


def test_findings_name_the_inert_term_and_the_dead_groups() -> None:
    text = text_of(*[rows((2.0, 0.5), (0.0, 0.5))] * 3, rows((0.0, 0.5), (0.0, 0.5)))
    assert "`format` never varies within a group, so the group's mean cancels it. It is always 0.5" in text
    assert "1 of 4 groups (25%) are dead" in text
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
