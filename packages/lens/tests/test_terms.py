"""What a reward term does to normalised advantages, as properties of any log."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agon_lens import Diagnosis, GroupLog, RewardRow, Term
from agon_lens.diagnosis import diagnose_log as diagnose
from agon_lens.groups import normalise, snap
from agon_lens.terms import MIN_REPEATS

FEW = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])
Table = list[list[tuple[float, ...]]]


def tables(terms: int) -> st.SearchStrategy[Table]:
    return st.lists(st.lists(st.tuples(*[FEW] * terms), min_size=2, max_size=6), min_size=1, max_size=8)


def log_of(table: Table, opponents: list[list[object]] | None = None) -> GroupLog:
    met = opponents or [[None] * len(group) for group in table]
    groups = tuple(
        tuple(RewardRow(terms, sum(terms), opponent=o) for terms, o in zip(group, outcomes, strict=True))  # type: ignore[arg-type]
        for group, outcomes in zip(table, met, strict=True)
    )
    return GroupLog("log", tuple("abcdef"[: len(table[0][0])]), groups)


def with_term(table: Table, values: list[list[float]]) -> Table:
    return [
        [(*row, v) for row, v in zip(group, added, strict=True)] for group, added in zip(table, values, strict=True)
    ]


def last(found: Diagnosis) -> Term:
    return found.terms[-1]


@given(tables(2), st.data())
def test_a_group_constant_term_is_always_inert_and_changes_no_advantage(table: Table, data: st.DataObject) -> None:
    added = [[data.draw(FEW)] * len(group) for group in table]
    term = last(diagnose(log_of(with_term(table, added))))
    assert term.kind == "group-constant"
    assert term.inert
    assert (term.flips, term.changed, term.decides_in) == (0, 0, [])
    assert term.change < 1e-9
    assert abs(term.share) < 1e-9


@given(tables(2), st.data())
def test_adding_a_group_constant_term_never_changes_the_other_terms(table: Table, data: st.DataObject) -> None:
    added = [[data.draw(FEW)] * len(group) for group in table]
    before = diagnose(log_of(table)).terms
    after = diagnose(log_of(with_term(table, added))).terms
    for old, new in zip(before, after[:-1], strict=True):
        assert old.kind == new.kind
        assert abs(old.change - new.change) < 1e-9
        assert abs(old.share - new.share) < 1e-9


@given(tables(1), st.sampled_from([0.25, 0.5, 1.0, 3.0]), st.data())
def test_a_positive_multiple_of_the_rest_with_its_own_slope_in_each_group_is_inert(
    table: Table, slope: float, data: st.DataObject
) -> None:
    assume(any(len(set(group)) > 1 for group in table))
    slopes = [slope, *(data.draw(st.sampled_from([0.0, 0.5, 1.0])) for _ in table[1:])]
    added = [[s * row[0] for row in group] for s, group in zip(slopes, table, strict=True)]
    term = last(diagnose(log_of(with_term(table, added))))
    assert term.inert
    assert term.changed == 0


def test_a_rescaling_term_is_not_inert_without_the_standard_deviation() -> None:
    table = [[(1.0, 0.5), (0.0, 0.0)], [(1.0, 0.0), (0.0, 0.0)]] * 4
    assert last(diagnose(log_of(table), "group")).kind == "rescaling"
    assert not last(diagnose(log_of(table), "none")).inert


def conversion(format_term: list[float], rival_right: list[bool]) -> tuple[Table, list[list[object]]]:
    """Eight rollouts of the adv stack, half of them right."""
    rows = []
    for i, (phi, rival) in enumerate(zip(format_term, rival_right, strict=True)):
        right = i % 2 == 0
        rows.append((2.0 * right, phi, float(right and not rival)))
    return [rows], [list(rival_right)]


def test_the_conversion_bonus_is_inert_against_a_shared_opponent_with_constant_format() -> None:
    table, met = conversion([0.5] * 8, [False] * 8)
    assert last(diagnose(log_of(table, met))).kind == "rescaling"


def test_of_two_terms_that_are_equal_in_every_row_the_first_is_learnt() -> None:
    table = [[(float(k), 0.5, float(k)) for k in (0, 1, 1)]] * 3
    assert [term.kind for term in diagnose(log_of(table)).terms] == ["signal", "group-constant", "rescaling"]


def test_the_conversion_bonus_is_not_inert_against_a_shared_opponent_when_format_varies() -> None:
    table, met = conversion([0.5, 0.0, 0.0, 0.5] * 2, [False] * 8)
    assert not last(diagnose(log_of(table, met))).inert


def test_the_conversion_bonus_carries_signal_when_opponents_vary_within_the_group() -> None:
    table, met = conversion([0.5] * 8, [True, True, False, False] * 2)
    term = last(diagnose(log_of(table, met)))
    assert term.kind == "signal"
    assert term.change > 0


def test_minus_the_opponents_outcome_is_action_independent() -> None:
    rival = [True, True, False, False] * 4
    table = [[(2.0 * (i % 3 == 0), -float(lost)) for i, lost in enumerate(rival)]]
    term = last(diagnose(log_of(table, [list(rival)])))
    assert term.kind == "action-independent"
    assert term.inert
    assert term.change > 0, "it is noise, not nothing"


def test_the_margin_is_an_echo_of_correctness_up_to_the_opponent() -> None:
    rival = [True, True, False, False] * 4
    right = [i % 3 == 0 for i in range(16)]
    format_term = [0.5 * (i % 5 > 0) for i in range(16)]
    rows = [(2.0 * r, phi, float(r) - float(a)) for r, phi, a in zip(right, format_term, rival, strict=True)]
    term = last(diagnose(log_of([rows], [list(rival)])))
    assert (term.kind, term.echo_of) == ("echo", "a")
    assert term.slope is not None
    assert abs(term.slope - 0.5) < 1e-9


def test_too_few_repeats_are_no_evidence_that_only_the_opponent_counts() -> None:
    rows = [(float(i % 2), float(i < MIN_REPEATS // 2)) for i in range(MIN_REPEATS)]
    met: list[object] = [i < MIN_REPEATS // 2 for i in range(MIN_REPEATS)]
    assert last(diagnose(log_of([rows], [met]))).kind == "signal"
    assert last(diagnose(log_of([rows] * 2, [met] * 2))).kind == "action-independent"


@given(tables(3))
def test_shares_add_up_to_one_unless_all_is_dead(table: Table) -> None:
    found = diagnose(log_of(table))
    whole = sum(term.share for term in found.terms)
    alive = found.dead_groups < found.groups
    assert abs(whole - alive) < 1e-9


def test_the_share_is_of_what_is_learnt_and_not_of_what_is_paid() -> None:
    penalised = [[(0.0, -0.001 * k) for k in range(4)]] * 7  # nobody is right, and the length decides
    mixed = [[(float(k % 2), -0.001 * k) for k in range(4)]] * 3
    right, brief = diagnose(log_of(penalised + mixed)).terms
    assert brief.share == pytest.approx(0.7, abs=0.01), "of what is paid it is 0.0001"
    assert right.share + brief.share == pytest.approx(1.0)
    assert diagnose(log_of(penalised + mixed), "none").terms[1].share < 0.001, "undivided, they are the same"


@given(tables(2), st.sampled_from([0.01, 3.0, 1000.0]))
def test_the_unit_of_the_rewards_does_not_matter(table: Table, unit: float) -> None:
    scaled = [[tuple(unit * value for value in row) for row in group] for group in table]
    for a, b in zip(diagnose(log_of(table)).terms, diagnose(log_of(scaled)).terms, strict=True):
        assert (a.kind, a.decides_in) == (b.kind, b.decides_in)
        assert abs(a.change - b.change) < 1e-6
        assert abs(a.share - b.share) < 1e-6


@given(tables(2), st.randoms())
def test_the_order_of_rows_and_groups_does_not_matter(table: Table, random: object) -> None:
    shuffled = [random.sample(group, len(group)) for group in table]  # type: ignore[attr-defined]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    before, after = diagnose(log_of(table)), diagnose(log_of(shuffled))
    assert before.dead == after.dead
    assert [t.kind for t in before.terms] == [t.kind for t in after.terms]
    for a, b in zip(before.terms, after.terms, strict=True):
        assert abs(a.change - b.change) < 1e-9


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8))
def test_normalised_groups_have_mean_zero_and_unit_deviation_or_are_dead(values: list[float]) -> None:
    got = normalise(values, "group", 1e-6)
    assert abs(sum(got)) < 1e-6
    assert abs(sum(value * value for value in got) - (len(values) - 1) * (len(set(snap(values, 1e-6))) > 1)) < 1e-6


def test_rewards_whose_squares_vanish_are_equal() -> None:
    found = diagnose(log_of([[(1e-200,), (0.0,), (5e-324,)]]))
    assert found.dead_groups == 1


@given(st.lists(st.floats(-1, 1), min_size=1))
def test_snapping_moves_no_value_further_than_the_resolution(values: list[float]) -> None:
    assert all(0 <= value - snapped <= 0.1 for value, snapped in zip(values, snap(values, 0.1), strict=True))
