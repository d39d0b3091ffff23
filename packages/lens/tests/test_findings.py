"""A diagnosis as sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from agon_lens import GroupLog, RewardRow, diagnose
from agon_lens.dead import Cause
from agon_lens.findings import MEANING, Finding, Rank, change_first, findings, summary
from agon_lens.groups import Group, Reading
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


def every_kind_of_finding() -> Iterator[tuple[GroupLog, list[Finding]]]:
    wrong = tuple(replace(row, advantage=9.0) for row in ALIVE)
    batch = tuple(
        tuple(RewardRow((v, 0.0), v, advantage=(v - sum(pair) / 2) / stdev([3.0, 0.0, 1.0, 0.5])) for v in pair)
        for pair in [(3.0, 0.0), (1.0, 0.5)]
    )
    met = [True, True, False, False] * 4
    against = tuple(
        RewardRow((2.0 * (k % 3 == 0), -lost), 2.0 * (k % 3 == 0) - lost, opponent=lost) for k, lost in enumerate(met)
    )
    half = rows(*[(float(k % 3 == 0), float(k % 5 == 0), 0.5 * (k % 3 == 0)) for k in range(16)])
    flat, bent = rows((1.0, 0.0), (0.0, 0.0), (1.0, 0.0)), rows((1.0, 0.5), (0.0, 0.0), (1.0, 0.0))
    high = rows((1.0, 0.5), (0.0, 0.5), (1.0, 0.5))
    logs = [
        GroupLog("log", ("right", "form"), (rows((1.0, 0.0)), rows((0.0, 0.0)))),
        GroupLog("log", ("right", "form"), ((RewardRow((0.0, 0.0), 1.0), RewardRow((0.0, 0.0), 2.0)),)),
        GroupLog("log", ("right", "form"), (wrong, ALIVE)),
        GroupLog("log", ("right", "form"), batch, steps=(1, 1)),
        GroupLog(
            "log",
            ("right", "form"),
            (ALIVE, *[said("abcd", 0.0)] * 2, said("aaaa", 0.0), said("ab", 0.0, truncated=True)),
        ),
        GroupLog("log", ("right", "form"), (*[ALIVE] * 4, *[said("ab", 0.0)] * 2), steps=(1, 2, 3, 4, 5, 6)),
        GroupLog("log", ("right", "form"), (*[ALIVE] * 19, said("ab", 0.0))),
        GroupLog("log", ("right", "form"), (rows((1.0, 0.5), (0.0, 0.0)), flat) * 4),
        GroupLog("log", ("right", "form"), (against,)),
        GroupLog("log", ("right", "form", "echo"), (half,)),
        GroupLog("log", ("right", "form"), (*[flat] * 30, bent)),
        GroupLog("log", ("right", "form"), (*[ALIVE] * 3, *[said("ab", 0.0, truncated=True)] * 4)),
        GroupLog("log", ("right", "form"), (*[ALIVE] * 20, rows((1e8, 0.0), (0.0, 0.5)))),
        GroupLog("log", ("right", "form"), (ALIVE, tuple(RewardRow((0.0, 0.0), None) for _ in range(2)))),
        GroupLog("log", ("right", "form"), (*[high] * 30, bent)),
        GroupLog("log", ("right", "bonus"), (against,), "right", ("bonus",), Reading(4, 4, 3, 2, 1, 1.5)),
    ]
    return ((log, findings(diagnose(log))) for log in logs)


def test_every_finding_has_a_number_a_group_that_shows_it_and_a_page_that_explains_it() -> None:
    page = (ROOT / "docs" / "diagnose.md").read_text()
    anchors = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in page.splitlines()}
    sentences = ""
    for log, found in every_kind_of_finding():
        for finding in found:
            sentences += finding.sentence
            assert re.search(r"\d", finding.sentence), finding
            assert finding.groups, finding
            assert max(finding.groups) < len(log.groups), finding
            assert finding.page.partition("#")[0] == "docs/diagnose.md"
            assert finding.section in anchors, finding
    for kind in (
        "has two rows", "have no reward", "goes up to", "not among the terms", "whole batch", "are not the totals",
        "were truncated", "teach nothing", "so few are usual", "by collapse", "on a cliff", "Dead groups rise",
        "never varies within", "inert in expectation", "is inert: it varies", " x `right`", "nearly inert",
        "at its maximum", "at its minimum", "alone decides", "The bonus has an effect", "Challenges kept",
        "times as hard",
    ):  # fmt: skip
        assert kind in sentences, kind


def test_a_term_that_another_repeats_in_every_row_decides_nothing_alone() -> None:
    twins = tuple(RewardRow((v, v), v) for v in (1.0, 0.0, 1.0, 0.0))  # the total is one of them, or their mean
    every = found(*[twins] * 5)
    assert not [finding for finding in every if "alone decides" in finding.sentence]


def test_few_losses_are_no_alarm() -> None:
    cut = (
        RewardRow((1.0, 0.0), 1.0, True, False),
        RewardRow((0.0, 0.5), 0.5, False, False),
        RewardRow((0.0, 0.0), 0.0, False, True),
    )
    small = rows((1.0, 0.5), (1.0, 0.49))
    every = found(*[ALIVE] * 60, said("ab", 0.0), said("aa", 0.0), cut, small)
    assert {finding.rank for finding in every} == {Rank.NOTE}
    assert change_first(every) == ""


@pytest.mark.parametrize("scale", ["group", "none", "batch", "unlogged"])
@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_gives_no_alarm(seed: int, scale: str) -> None:
    """Right answers at middling rates, a format that is nearly always kept, a small penalty by length."""
    drawn = random.Random(seed)
    paid = []
    for _ in range(60):
        rate = drawn.uniform(0.3, 0.7)
        paid.append(
            [(float(drawn.random() < rate), 0.5 * (drawn.random() < 0.95), -0.05 * drawn.random()) for _ in range(8)]
        )
    groups = []
    for number, group in enumerate(paid):
        sums = [sum(terms) for terms in group]
        step = [sum(terms) for each in paid[number // 4 * 4 : number // 4 * 4 + 4] for terms in each]
        divisor = {"group": stdev(sums), "batch": stdev(step)}.get(scale, 1.0) + 1e-4 * (scale != "none")
        rows = (
            RewardRow(terms, total, advantage=None if scale == "unlogged" else (total - fmean(sums)) / divisor)
            for terms, total in zip(group, sums, strict=True)
        )
        groups.append(tuple(rows))
    steps = tuple(float(number // 4) for number in range(60))
    every = findings(diagnose(GroupLog("log", ("right", "format", "brief"), tuple(groups), steps=steps)))
    assert not [finding for finding in every if finding.rank is not Rank.NOTE]
    assert change_first(every) == ""


def test_a_reward_that_never_differs_in_the_whole_log_is_a_question_to_the_verifier() -> None:
    zero, half = (
        change_first(found(*[tuple(RewardRow((paid, 0.0), paid, text=k) for k in range(3))] * 3)) for paid in (0.0, 0.5)
    )
    assert zero.startswith("Try the verifier on some right answers")
    assert half.startswith("Try the reward functions on a right and a wrong answer")
    assert change_first(found(*[said("abc", 1.0)] * 3)).startswith("Take harder problems"), (
        "the log says that all are right"
    )


def test_rows_without_a_reward_are_a_finding_and_their_terms_say_nothing() -> None:
    lost = tuple(RewardRow((0.0, 0.0), None) for _ in range(2))
    assert "2 of 8 rows (25%) have no reward" in about("no reward", ALIVE, ALIVE, ALIVE, lost).sentence
    text = "\n".join(summary(diagnose(GroupLog("log", ("correctness", "format"), (lost, lost)))))
    assert "Change first: Look for errors" in text
    assert "group-constant" not in text
    assert "always 0" not in text


def test_one_huge_reward_is_named_and_does_not_make_all_others_equal() -> None:
    wild = rows((1e8, 0.0), (0.0, 0.5))
    (finding,) = [each for each in found(*[ALIVE] * 20, wild) if "goes up to 1e+08" in each.sentence]
    assert finding.groups == (20,)
    assert diagnose(GroupLog("log", ("correctness", "format"), (*[ALIVE] * 20, wild))).dead_groups == 0


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
