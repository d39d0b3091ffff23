"""What is found in a log: its kind, its numbers, the groups that show it, and what to change first."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from agon_lens import Diagnosis, Finding, GroupLog, RewardRow
from agon_lens.dead import Cause
from agon_lens.diagnosis import diagnose_log
from agon_lens.findings import ALWAYS_EQUAL, MEANING, MIXED, NEVER_RIGHT, REMEDY, TEXTS, VARY, Rank
from agon_lens.groups import Group
from lens_logs import ALIVE, ROOT, rows


def said(texts: str, paid: float, truncated: bool = False) -> Group:
    """A group of one letter per completion, all of which earn the same."""
    return tuple(RewardRow((paid, 0.0), paid, paid > 0, truncated, text=hash(letter)) for letter in texts)


def log(*groups: Group, terms: tuple[str, ...] = ("right", "form"), steps: tuple[float, ...] = ()) -> GroupLog:
    return GroupLog("log", terms, groups, steps=steps)


def kinds(given: GroupLog) -> dict[str, Finding]:
    return {finding.kind: finding for finding in diagnose_log(given).findings}


def paid_by_batch() -> list[Group]:
    pairs = [(3.0, 0.0), (1.0, 0.5)]
    std = stdev([value for pair in pairs for value in pair])
    return [tuple(RewardRow((v, 0.0), v, advantage=(v - sum(pair) / 2) / std) for v in pair) for pair in pairs]


MET = [True, True, False, False] * 4
AGAINST = tuple(
    RewardRow((2.0 * (k % 3 == 0), -lost), 2.0 * (k % 3 == 0) - lost, opponent=lost) for k, lost in enumerate(MET)
)
ECHO = rows(*[(float(k % 3 == 0), float(k % 5 == 0), 0.5 * (k % 3 == 0)) for k in range(16)])
FLAT, BENT, FORMED = (
    rows((1.0, form), (0.0, other), (1.0, form)) for form, other in [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5)]
)
DISAGREEING = tuple(replace(row, advantage=9.0) for row in ALIVE)
EXAMPLES: dict[str, tuple[GroupLog, dict[str, object], tuple[int, ...]]] = {
    "groups of one row": (log(rows((1.0, 0.0)), rows((0.0, 0.0))), {}, (0, 1)),
    "missing steps": (replace(log(ALIVE), stepless=2), {"missing": 2, "rows": 2}, (0,)),
    "unexplained total": (
        log((RewardRow((0.0, 0.0), 1.0), RewardRow((0.0, 0.0), 2.0)), ALIVE),
        {"count": 1, "groups": 2},
        (0,),
    ),
    "other advantages": (log(ALIVE, DISAGREEING), {"count": 1, "groups": 2}, (1,)),
    "advantages scaled by batch": (log(*paid_by_batch(), steps=(1, 1)), {"groups": 2}, (0, 1)),
    "ungraded rows": (
        log(ALIVE, tuple(RewardRow((0.0, 0.0), None) for _ in range(2))),
        {"missing": 2, "rows": 4},
        (1,),
    ),
    "outliers": (
        log(*[ALIVE] * 20, rows((1e8, 0.0), (0.0, 0.5))),
        {"term": "right", "largest": 1e8, "median": 2.0},
        (20,),
    ),
    "truncation": (
        log(*[ALIVE] * 3, *[said("abcd", 0.0, truncated=True)] * 4),
        {"truncated": 16 / 22, "least": 1.0, "others": 0.5},
        (3, 4, 5, 6),
    ),
    "dead groups": (log(ALIVE, rows((0.0, 0.5), (0.0, 0.5))), {"count": 1, "groups": 2}, (1,)),
    "collapse": (log(ALIVE, said("aaab", 0.0)), {"cause": "all wrong", "of_cause": 1}, (1,)),
    "cliff": (log(ALIVE, said("abcd", 0.0)), {"cause": "all wrong", "of_cause": 1}, (1,)),
    "changing dead groups": (
        log(*[ALIVE] * 4, *[said("ab", 0.0)] * 2, steps=(1, 2, 3, 4, 5, 6)),
        {"early": 0.0, "late": 1.0},
        (5, 4),
    ),
    "always the same": (log(*[rows((1.0, 0.5), (0.0, 0.5))] * 2), {"term": "form", "mean": 0.5}, (0, 1)),
    "group-constant": (
        log(rows((1.0, 0.5), (0.0, 0.5)), FLAT),
        {"term": "form", "least": 0.0, "most": 0.5},
        (0, 1),
    ),
    "action-independent": (log(AGAINST), {"term": "form", "share": 1.0}, (0,)),
    "rescaling": (log(rows((1.0, 0.5), (0.0, 0.0)), FLAT), {"term": "form", "share": 0.5}, (0,)),
    "echo": (log(ECHO, terms=("right", "form", "same")), {"term": "same", "slope": 0.5, "other": "right"}, (0,)),
    "nearly inert": (log(*[FLAT] * 30, rows((1.0, 0.5), (0.0, 0.0), (1.0, 0.0))), {"term": "form"}, (30,)),
    "at its end": (
        log(*[FORMED] * 30, rows((1.0, 0.5), (0.0, 0.0), (1.0, 0.0))),
        {"term": "form", "end": "maximum", "value": 0.5},
        tuple(range(30)),
    ),
    "decides alone": (log(BENT, rows((1.0, 0.5), (1.0, 0.0))), {"term": "form", "small": 0}, (1,)),
    "decides by little": (log(ALIVE, rows((0.0, 0.01), (0.0, 0.0))), {"term": "form", "small": 1}, (1,)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_every_kind_is_found_with_its_numbers_and_the_groups_that_show_it(kind: str) -> None:
    given, numbers, groups = EXAMPLES[kind]
    finding = kinds(given)[kind]
    assert {name: finding.numbers[name] for name in numbers} == pytest.approx(numbers)
    assert finding.groups == groups
    assert finding.json()["kind"] == kind


@pytest.mark.parametrize("kind", TEXTS)
def test_every_kind_has_a_sentence_with_a_number_and_a_section_that_explains_it(kind: str) -> None:
    page = (ROOT / "docs" / "diagnose.md").read_text()
    anchors = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in page.splitlines()}
    finding = kinds(EXAMPLES[kind][0])[kind]
    assert re.search(r"\d", finding.sentence)
    assert "{" not in f"{finding.sentence} {finding.fix}"
    assert finding.page.partition("#")[2] in anchors


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(REMEDY) == set(Cause)


def test_one_fact_is_found_once() -> None:
    for given, _, _ in EXAMPLES.values():
        found = [
            (finding.kind, finding.numbers.get("term"), finding.groups) for finding in diagnose_log(given).findings
        ]
        assert len(found) == len(set(found))
    found = diagnose_log(log(*[rows((1.0, 0.001), (1.0, 0.0))] * 4, rows((0.0, 0.0), (1.0, 0.0)))).findings
    assert [finding.numbers.get("term") for finding in found].count("form") == 1


def test_a_term_decides_alone_only_where_a_second_one_varies_too() -> None:
    alone = [rows((2.0, 0.5), (0.0, 0.5))] * 3
    assert "decides alone" not in kinds(log(*alone)), "the others are constant, which is said already"
    found = diagnose_log(log(*alone, rows((2.0, 0.5), (2.0, 0.0)))).findings
    assert [each.groups for each in found if each.kind == "decides alone"] == [(0, 1, 2), (3,)]
    twins = tuple(RewardRow((v, v), v) for v in (1.0, 0.0, 1.0, 0.0))  # the total is one of them, or their mean
    assert not {"decides alone", "decides by little"} & kinds(log(*[twins] * 5)).keys()


@pytest.mark.parametrize("epsilon", [1e-4, 1e-6, 0.0])
def test_the_epsilon_of_a_trainer_is_no_disagreement_in_a_group_that_a_small_term_decides(epsilon: float) -> None:
    paid = [2.651, 2.657, 2.657, 2.6645]
    mean, spread = fmean(paid), stdev(paid)
    group = tuple(RewardRow((2.0, value - 2), value, advantage=(value - mean) / (spread + epsilon)) for value in paid)
    assert diagnose_log(log(group)).advantages_agree
    halved = tuple(replace(row, advantage=row.advantage and row.advantage / 2) for row in group)
    assert not diagnose_log(log(halved)).advantages_agree


def test_a_dead_group_is_a_cliff_or_a_collapse_and_the_remedies_are_opposite() -> None:
    found = kinds(log(ALIVE, said("abcd", 0.0), said("abcd", 0.0), said("aaab", 0.0)))
    assert (found["cliff"].groups, found["collapse"].groups) == ((1, 2), (3,))
    assert (found["cliff"].share, found["collapse"].share) == (0.5, 0.25)
    assert (found["cliff"].fix, found["collapse"].fix) == (REMEDY[Cause.ALL_WRONG], VARY)
    assert kinds(log(ALIVE, said("ab", 2.0)))["cliff"].fix == REMEDY[Cause.ALL_RIGHT]
    solved = kinds(log(ALIVE, *[said("aaaa", 2.0)] * 2))["collapse"]
    assert solved.fix == REMEDY[Cause.ALL_RIGHT], "it is no fault that the policy has settled"
    assert kinds(log(ALIVE, said("ab", 2.0), said("ab", 0.0)))["cliff"].fix == MIXED
    assert not {"cliff", "collapse"} & kinds(log(ALIVE, rows((0.0, 0.5), (0.0, 0.5)))).keys(), "a log without texts"


def test_truncation_that_decides_rewards_is_changed_first_and_is_no_cliff() -> None:
    given = log(*[ALIVE] * 3, *[said("abcd", 0.0, truncated=True)] * 4, said("ab", 0.0))
    found = diagnose_log(given)
    assert found.change_first is not None
    assert found.change_first.kind == "truncation"
    assert kinds(given)["cliff"].groups == (7,)
    live = (RewardRow((1.0, 0.0), 1.0, True, True), RewardRow((0.0, 0.0), 0.0, False, False))
    assert "truncation" not in kinds(log(*[live] * 3)), "truncated rows that earn as much as others are no cause"


def test_findings_are_ranked_by_what_they_cost_and_the_first_remedy_is_named() -> None:
    found = diagnose_log(log(ALIVE, *[said("abcd", 0.0)] * 3, *[said("aaaa", 0.0)] * 2))
    assert [each.rank for each in found.findings] == sorted(each.rank for each in found.findings)
    costs = [each.share for each in found.findings if each.rank is Rank.COST]
    assert costs == sorted(costs, reverse=True)
    assert found.change_first is not None
    assert found.change_first.kind == "cliff"
    assert str(found).count("Change first: ") == 1
    assert diagnose_log(log(*[ALIVE] * 3)).change_first is None


def test_few_losses_are_no_alarm() -> None:
    cut = (
        RewardRow((1.0, 0.0), 1.0, True, False),
        RewardRow((0.0, 0.5), 0.5, False, False),
        RewardRow((0.0, 0.0), 0.0, False, True),
    )
    found = diagnose_log(log(*[ALIVE] * 60, said("ab", 0.0), said("aa", 0.0), cut, rows((1.0, 0.5), (1.0, 0.49))))
    assert {each.kind for each in found.findings} >= {"dead groups", "truncation"}
    assert {each.rank for each in found.findings} == {Rank.NOTE}


@pytest.mark.parametrize("scale", ["group", "none", "batch", "unlogged"])
@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_gives_no_alarm(seed: int, scale: str) -> None:
    """Right answers at middling rates, a format that is nearly always kept, a small penalty by length."""
    drawn, paid = random.Random(seed), []
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
        logged = [None if scale == "unlogged" else (total - fmean(sums)) / divisor for total in sums]
        groups.append(tuple(RewardRow(t, s, advantage=a) for t, s, a in zip(group, sums, logged, strict=True)))
    found = diagnose_log(
        log(*groups, terms=("right", "format", "brief"), steps=tuple(float(number // 4) for number in range(60)))
    )
    assert not [each for each in found.findings if each.rank is not Rank.NOTE]
    assert found.change_first is None


def test_a_reward_that_never_differs_in_the_whole_log_is_a_question_to_the_verifier() -> None:
    def first(*groups: Group) -> str:
        found = diagnose_log(log(*groups)).change_first
        return found.fix if found else ""

    zero, half = (first(*[tuple(RewardRow((paid, 0.0), paid, text=k) for k in range(3))] * 3) for paid in (0.0, 0.5))
    assert (zero, half) == (NEVER_RIGHT, ALWAYS_EQUAL)
    assert first(*[said("abc", 1.0)] * 3) == REMEDY[Cause.ALL_RIGHT], "the log says that all are right"


def test_terms_of_rows_without_a_reward_say_nothing() -> None:
    lost = tuple(RewardRow((0.0, 0.0), None) for _ in range(2))
    found = kinds(log(lost, lost))
    assert found.keys() == {"ungraded rows", "dead groups"}
    assert found["ungraded rows"].rank is Rank.COST


def test_one_huge_reward_does_not_make_all_others_equal() -> None:
    assert diagnose_log(EXAMPLES["outliers"][0]).dead_groups == 0


def test_a_log_without_findings_has_none_and_says_so() -> None:
    found = diagnose_log(log(rows((1.0, 0.0), (0.0, 0.5), (0.0, 0.0)), rows((1.0, 0.5), (0.0, 0.5), (1.0, 0.0))))
    assert found.findings == ()
    assert str(found).endswith("  Nothing looks wrong.")


def test_small_numbers_are_not_0_and_rounding_errors_are() -> None:
    table = screen(log(rows((0.0004, 0.1 + 0.2), (0.0, 0.1 + 0.2)), terms=("tiny", "constant")))[2:5]
    assert table[1].split()[-3:] == ["0.0002", "0", "0.0004"]
    assert table[2].split() == ["constant", "group-constant", "0%", "0", "0", "0%", "0.3", "0.3", "0.3"]


def test_names_from_a_log_do_not_move_the_cursor() -> None:
    hostile = replace(log(rows((1.0,), (1.0,)), terms=("a\x1b[2J",)), name="log\x1b[2J", notes=("taken: \x1b[2J",))
    assert "\x1b" not in "\n".join(screen(hostile))


def screen(given: GroupLog) -> list[str]:
    found: Diagnosis = diagnose_log(given)
    return str(found).splitlines()
