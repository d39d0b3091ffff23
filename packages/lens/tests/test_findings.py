"""A diagnosis as sentences."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from agon_lens import GroupLog, RewardRow, diagnose
from agon_lens.dead import Cause
from agon_lens.findings import MEANING, Finding, Rank, change_first, findings, summary
from agon_lens.groups import Group
from lens_logs import ALIVE, ROOT, rows


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(Cause)


def test_one_group_is_not_plural() -> None:
    log = GroupLog("log", ("correctness", "format"), (rows((1.0, 0.5), (0.0, 0.5)),))
    assert "log: 1 group of 2, 2 rows" in "\n".join(summary(diagnose(log)))
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
    return "\n".join(map(str, findings(diagnose(GroupLog("log", ("correctness", "format"), groups)))))


def test_findings_name_the_inert_term_and_the_dead_groups() -> None:
    text = text_of(*[rows((2.0, 0.5), (0.0, 0.5))] * 3, rows((0.0, 0.5), (0.0, 0.5)))
    assert "`format` never varies within a group, so the group's mean cancels it. It is always 0.5" in text
    assert "1 of 4 groups (25%) is dead: its tokens" in text
    assert "`correctness` is inert" not in text


def test_a_term_is_said_to_decide_alone_only_where_a_second_one_varies_too() -> None:
    alone = [rows((2.0, 0.5), (0.0, 0.5))] * 3
    assert "alone decides" not in text_of(*alone), "the others are constant, which is said already"
    assert "`correctness` alone decides 3 of 4 groups (75%)" in text_of(*alone, rows((2.0, 0.5), (2.0, 0.0)))


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
    assert ("advantages are not the totals" in "\n".join(map(str, findings(found)))) is not agree


@pytest.mark.parametrize("epsilon", [1e-4, 1e-6, 0.0])
def test_the_epsilon_of_a_trainer_is_no_disagreement_in_a_group_that_a_small_term_decides(epsilon: float) -> None:
    paid = [2.651, 2.657, 2.657, 2.6645]
    mean, spread = fmean(paid), stdev(paid)
    group = tuple(RewardRow((2.0, value - 2), value, advantage=(value - mean) / (spread + epsilon)) for value in paid)
    assert diagnose(GroupLog("log", ("correctness", "brevity"), (group,))).advantages_agree
    halved = tuple(replace(row, advantage=row.advantage and row.advantage / 2) for row in group)
    assert not diagnose(GroupLog("log", ("correctness", "brevity"), (halved,))).advantages_agree


def said(texts: str, paid: float, truncated: bool = False) -> Group:
    """A group of one letter per completion, all of which earn the same."""
    return tuple(RewardRow((paid, 0.0), paid, paid > 0, truncated, text=hash(letter)) for letter in texts)


def found(*groups: Group, steps: tuple[float, ...] = ()) -> list[Finding]:
    return findings(diagnose(GroupLog("log", ("correctness", "format"), groups, steps=steps)))


def about(word: str, *groups: Group) -> Finding:
    (finding,) = [finding for finding in found(*groups) if word in finding.sentence]
    return finding


def test_a_dead_group_is_a_cliff_or_a_collapse_and_the_remedies_are_opposite() -> None:
    groups = (ALIVE, said("abcd", 0.0), said("abcd", 0.0), said("aaab", 0.0))
    cliff, collapse = about("cliff", *groups), about("collapse", *groups)
    assert (cliff.groups, collapse.groups) == ((1, 2), (3,))
    assert (cliff.share, collapse.share) == (0.5, 0.25)
    assert "easier problems" in cliff.fix
    assert "temperature" in collapse.fix
    assert "harder problems" in about("cliff", ALIVE, said("ab", 2.0)).fix


def test_groups_that_are_solved_in_the_same_words_need_harder_problems() -> None:
    solved = about("collapse", ALIVE, *[said("aaaa", 2.0)] * 2)
    assert "all right in 2 of them" in solved.sentence
    assert "harder problems" in solved.fix
    assert "temperature" not in solved.fix


def test_a_log_without_findings_says_so() -> None:
    groups = (rows((1.0, 0.0), (0.0, 0.5), (0.0, 0.0)), rows((1.0, 0.5), (0.0, 0.5), (1.0, 0.0)))
    text = summary(diagnose(GroupLog("log", ("correctness", "format"), groups)))
    assert text[-1] == "  Nothing looks wrong."


def test_a_log_without_texts_says_neither() -> None:
    text = text_of(ALIVE, rows((0.0, 0.5), (0.0, 0.5)))
    assert "cliff" not in text
    assert "collapse" not in text


def test_truncation_that_decides_rewards_is_changed_first_and_is_no_cliff() -> None:
    groups = (*[ALIVE] * 3, *[said("abcd", 0.0, truncated=True)] * 4, said("ab", 0.0))
    first = about("of the rows were truncated", *groups)
    assert change_first(found(*groups)) == first.fix
    assert "67% of the rows were truncated, and 100% of those" in first.sentence
    assert first.groups == (3, 4, 5, 6)
    assert about("cliff", *groups).groups == (7,)
    live = (RewardRow((1.0, 0.0), 1.0, True, True), RewardRow((0.0, 0.0), 0.0, False, False))
    assert "truncated" not in text_of(*[live] * 3), "truncated rows that earn as much as others are no cause"


def test_findings_are_ranked_by_what_they_cost_and_the_first_remedy_is_named() -> None:
    groups = (ALIVE, *[said("abcd", 0.0)] * 3, *[said("aaaa", 0.0)] * 2)
    every = found(*groups)
    assert [finding.rank for finding in every] == sorted(finding.rank for finding in every)
    costs = [finding.share for finding in every if finding.rank is Rank.COST]
    assert costs == sorted(costs, reverse=True)
    assert change_first(every) == about("cliff", *groups).fix
    text = "\n".join(summary(diagnose(GroupLog("log", ("correctness", "format"), groups))))
    assert text.splitlines()[-1] == f"  Change first: {change_first(every)}"
    assert change_first(found(*[ALIVE] * 3)) == ""


def test_every_finding_has_a_page_that_explains_it() -> None:
    page = (ROOT / "docs" / "diagnose.md").read_text()
    anchors = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in page.splitlines()}
    groups = (ALIVE, said("abcd", 0.0), said("aaaa", 0.0), said("ab", 0.0, truncated=True))
    wrong = tuple(replace(row, advantage=9.0) for row in ALIVE)
    for finding in [*found(*groups), *found(wrong, ALIVE), *found(rows((1.0, 0.0)))]:
        assert finding.page.partition("#")[0] == "docs/diagnose.md"
        assert not finding.section or finding.section in anchors, finding


def test_one_fact_is_one_sentence() -> None:
    every = found(*[rows((1.0, 0.001), (1.0, 0.0))] * 4, rows((0.0, 0.0), (1.0, 0.0)))
    assert len([finding for finding in every if "`format`" in finding.sentence]) == 1


def test_advantages_that_only_some_groups_contradict_are_counted() -> None:
    right = tuple(replace(row, advantage=sign * 0.70706) for row, sign in zip(ALIVE, (1, -1), strict=True))
    wrong = tuple(replace(row, advantage=0.3) for row in ALIVE)
    first, *_ = found(right, wrong, right)
    assert "in 1 of 3 groups (33%)" in first.sentence
    assert first.groups == (1,)


def test_advantages_over_the_standard_deviation_of_the_batch_are_recognised() -> None:
    paid = [(3.0, 0.0), (1.0, 0.5)]
    std = stdev([value for pair in paid for value in pair])
    groups = tuple(tuple(RewardRow((v, 0.0), v, advantage=(v - sum(pair) / 2) / std) for v in pair) for pair in paid)
    every = found(*groups, steps=(1, 1))
    assert "standard deviation of the whole batch" in " ".join(map(str, every))
    assert "are not the totals" not in " ".join(map(str, every))
