"""Why a group is dead: one cause for each, and every dead group is counted once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.diagnose import Log, Row, diagnose
from agon.diagnose.dead import Cause, causes
from agon.diagnose.findings import MEANING, findings

ALIVE = (Row((2.0, 0.5), 2.5, True, False), Row((0.0, 0.0), 0.0, False, False))


def rows(*terms: tuple[float, ...], correct: bool | None = None, truncated: bool | None = None) -> tuple[Row, ...]:
    return tuple(Row(paid, sum(paid), correct, truncated) for paid in terms)


def only(group: tuple[Row, ...]) -> dict[Cause, int]:
    return dict(causes(Log("log", ("correctness", "format"), (ALIVE, group))))


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        ((Row((0.0, 0.0), None), Row((2.0, 0.5), 2.5)), Cause.UNGRADED),
        (rows((2.0, 0.0), (1.5, 0.5)), Cause.CANCELLING),
        ((Row((0.0, 0.5), 0.5, True), Row((0.0, 0.5), 0.5, False)), Cause.UNPAID),
        (rows((0.0, 0.0), (0.0, 0.0), correct=False, truncated=True), Cause.TRUNCATED),
        (rows((2.0, 0.5), (2.0, 0.5), correct=True), Cause.ALL_RIGHT),
        (rows((0.0, 0.5), (0.0, 0.5), correct=False), Cause.ALL_WRONG),
        (rows((2.0, 0.5), (2.0, 0.5)), Cause.SATURATED),
        (rows((0.0, 0.0), (0.0, 0.0)), Cause.FLOORED),
        (rows((0.0, 0.5), (0.0, 0.5)), Cause.CONSTANT),
    ],
)
def test_every_cause_is_told_apart(group: tuple[Row, ...], cause: Cause) -> None:
    assert only(group) == {cause: 1}


def test_a_live_group_has_no_cause() -> None:
    assert only(rows((2.0, 0.5), (0.0, 0.5), correct=None)) == {}


def test_an_ungraded_row_does_not_keep_a_group_alive() -> None:
    assert only((*rows((2.0, 0.5), (2.0, 0.5), correct=True), Row((0.0, 0.0), None, False))) == {Cause.ALL_RIGHT: 1}


def test_float32_noise_is_not_signal() -> None:
    assert only(rows((0.1, 0.2), (0.30000001192092896, 0.0))) == {Cause.CANCELLING: 1}


def test_every_cause_has_words() -> None:
    assert set(MEANING) == set(Cause)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1))
def test_dead_and_live_groups_are_all_groups(table: list[list[float]]) -> None:
    log = Log("log", ("reward",), tuple(tuple(Row((v,), v) for v in group) for group in table))
    assert diagnose(log).dead_groups == sum(len(set(group)) < 2 for group in table)


def said(*groups: tuple[Row, ...]) -> str:
    return "\n".join(findings(diagnose(Log("log", ("correctness", "format"), groups))))


def test_findings_name_the_inert_term_and_the_dead_groups() -> None:
    words = said(*[rows((2.0, 0.5), (0.0, 0.5))] * 3, rows((0.0, 0.5), (0.0, 0.5)))
    assert "`format` is inert: it never varies within a group" in words
    assert "1 of 4 groups (25%) are dead" in words
    assert "`correctness` alone keeps 3 groups alive" in words
    assert "`correctness` is inert" not in words


def test_findings_question_a_wrong_group_column() -> None:
    assert "No group has two rows" in said(rows((2.0, 0.5)), rows((0.0, 0.5)))


def test_findings_question_terms_that_do_not_add_up() -> None:
    assert "not among the terms" in said((Row((0.0, 0.0), 1.0), Row((0.0, 0.0), 2.0)))
    assert "not among the terms" not in said(ALIVE)


@pytest.mark.parametrize(("factor", "agree"), [(1.0, True), (1.5, False)])
def test_logged_advantages_are_compared_with_ours(factor: float, agree: bool) -> None:
    group = tuple(Row((v, 0.0), v, advantage=factor * a) for v, a in [(2.0, 0.70706), (0.0, -0.70706)])
    found = diagnose(Log("log", ("correctness", "format"), (group,)))
    assert found.advantages_agree is agree
    assert ("advantages are not the totals" in "\n".join(findings(found))) is not agree


def test_the_scale_is_told_from_the_logged_advantages() -> None:
    group = tuple(Row((v,), v, advantage=v - 2.0) for v in (4.0, 0.0, 4.0, 0.0))
    assert diagnose(Log("log", ("reward",), (group,))).scale == "none"
