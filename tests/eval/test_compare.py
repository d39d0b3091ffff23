"""Comparisons: paired on common problems, seeds decide where there are several, and plain words say what follows."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.eval import intervals
from agon.eval.compare import FEWEST, compare, compare_results
from agon.rundir.records import write_record
from agon.rundir.results import ALPHA, DirectionChoice, EvalResult
from agon.types import Direction
from tests.eval.helpers import SETTINGS, result_of


def result(arm: str, right: set[int], n: int = 40, seed: int = 0, system: str = "cascade") -> EvalResult:
    """A result on problems 0..n-1, right on some of them."""
    return result_of({f"p{k}": [k in right] for k in range(n)}, arm, seed, system)


def test_a_problem_counts_once_however_many_of_its_samples_were_graded() -> None:
    """Else the rates in the table would not differ by the difference below it."""
    uneven = result_of({f"p{k}": [True] * 9 if k < 5 else [False] for k in range(10)}, "agon", 0, "cascade")
    even = result_of({f"p{k}": [k < 3, k < 5] for k in range(10)}, "grpo", 0, "cascade")
    found = compare_results([even, uneven])
    rates = [side.pass_rate.value for side in found.sides]
    assert rates == pytest.approx([0.4, 0.5])
    assert found.pairs[0].difference.value == pytest.approx(rates[1] - rates[0])
    assert uneven.measured.pass_rate is not None
    assert uneven.measured.pass_rate.value == pytest.approx(0.5), "agon eval says the same"


def test_one_run_each_is_the_exact_mcnemar_test_on_the_same_problems() -> None:
    found = compare_results([result("grpo", set(range(10))), result("agon", set(range(5, 30)))])
    (pair,) = found.pairs
    assert (pair.only_first, pair.only_second) == (5, 20)
    assert pair.p == pair.p_holm == intervals.mcnemar(5, 20)
    assert pair.difference.value == pytest.approx(15 / 40)
    text = str(found)
    assert "It solves 20 that grpo cascade does not, and misses 5" in text
    assert "agon cascade is better" in text
    assert "a different seed" in text


def test_a_notebook_shows_a_comparison_as_a_table() -> None:
    html = compare_results([result("<b>grpo", {1, 2, 3}), result("agon", {2, 3, 4})])._repr_html_()
    assert "<table>" in html
    assert "&lt;b&gt;grpo cascade" in html
    assert "<b>" not in html
    assert "No difference is shown" in html


def test_no_difference_comes_with_what_would_have_been_missed() -> None:
    text = str(compare_results([result("grpo", {1, 2, 3}), result("agon", {2, 3, 4})]))
    assert "No difference is shown; one below" in text


@pytest.mark.parametrize("samples", [1, 3])
def test_nothing_right_on_either_side_is_no_proof_that_they_are_equal(samples: int) -> None:
    sides = [result_of({f"p{k}": [False] * samples for k in range(12)}, arm) for arm in ("grpo", "agon")]
    found = compare_results(sides)
    difference = found.pairs[0].difference
    assert difference.value == 0
    assert difference.low < -0.2
    assert difference.high > 0.2
    assert "No difference is shown; one below 57" in str(found)


@pytest.mark.parametrize(
    ("first", "second", "n", "wanted"),
    [
        (set(), set(range(4)), 4, "Too few problems for either: the sides differ on 4, the test needs 6"),
        ({0, 1}, {1, 2, 3}, 4, "Too few problems for either: the sides differ on 3, the test needs 6"),
        (set(), set(range(5)), 40, "Too few problems for either: the sides differ on 5, the test needs 6"),
        ({0}, set(range(1, 8)), 20, "Interval and test differ near the limit"),
        ({1, 2, 3}, {2, 3, 4}, 40, ""),
        (set(), set(range(7)), 40, ""),
    ],
)
def test_an_interval_that_contradicts_its_test_is_explained(
    first: set[int], second: set[int], n: int, wanted: str
) -> None:
    text = str(compare_results([result("grpo", first, n), result("agon", second, n)]))
    assert intervals.mcnemar(0, FEWEST) < ALPHA <= intervals.mcnemar(0, FEWEST - 1)
    told = [line for line in text.splitlines() if line.startswith(("Too few", "Interval and test"))]
    assert len(told) == bool(wanted)
    assert wanted in text


def test_other_reasons_for_a_contradiction_are_told_apart() -> None:
    sides = [
        result_of({f"p{k}": [right, right] for k in range(4)}, arm, 0, "cascade")
        for arm, right in (("grpo", False), ("agon", True))
    ]
    assert "because all differences are equal" in str(compare_results(sides))
    family = [result("grpo", set()), *(result(arm, set(range(6))) for arm in ("coop", "agon", "margin"))]
    assert str(compare_results(family)).count("the test is corrected for all of them, and decides") == 3


def test_a_family_is_adjusted_together() -> None:
    found = compare_results(
        [result("grpo", set()), *(result(arm, set(range(7))) for arm in ("coop", "agon", "margin"))]
    )
    assert [pair.p_holm for pair in found.pairs] == [pytest.approx(3 * intervals.mcnemar(0, 7))] * 3


def test_seeds_decide_where_there_are_several_and_the_bootstrap_is_descriptive() -> None:
    first = [result("grpo", set(range(10 + seed)), seed=seed) for seed in range(4)]
    second = [result("agon", set(range(20 + 2 * seed)), seed=seed) for seed in range(4)]
    found = compare_results([*first, *second])
    (pair,) = found.pairs
    assert pair.differences is not None
    values = list(pair.differences.values())
    assert values == pytest.approx([(10 + seed) / 40 for seed in range(4)])
    assert pair.difference == intervals.t_interval(values)
    assert pair.descriptive
    assert found.sides[0].over == "seeds"
    assert "descriptive: too few seeds" in str(found)


def test_no_difference_above_one_hundred_points_is_named_as_detectable() -> None:
    first = [result("grpo", set(range(20)), seed=seed) for seed in range(2)]
    second = [result("agon", set(range(20 * seed)), seed=seed) for seed in range(2)]
    assert "with so few seeds, even 100 points would be missed" in str(compare_results([*first, *second]))


def test_different_problem_sets_are_restricted_to_the_intersection_and_that_is_said() -> None:
    found = compare_results([result("grpo", {1}, n=40), result("agon", {1}, n=30)])
    assert found.problems == 30
    assert "restricted to the 30 problems in common" in str(found)


def test_disjoint_problem_sets_are_refused() -> None:
    with pytest.raises(InputError, match="no problem in common"):
        compare_results([result("grpo", {1}), result_of({f"q{k}": [k == 1] for k in range(40)})])


def test_a_machines_failure_is_in_no_comparison() -> None:
    outcomes = {f"p{k}": [None if k == 0 else k in (1, 2)] for k in range(40)}
    found = compare_results([result("grpo", {0, 1}), result_of(outcomes)])
    assert found.problems == 39


def test_unlike_settings_and_a_direction_chosen_here_are_said() -> None:
    cold = result("grpo", {1}).model_copy(update={"settings": SETTINGS.model_copy(update={"temperature": 0.0})})
    choice = DirectionChoice(chosen=Direction.AB, by="the evaluated problems", pass_rates={}, optimism=0.016)
    chosen = result("agon", {1}, system="cascade-post-hoc").model_copy(update={"direction": choice})
    text = compare_results([cold, chosen]).markdown()
    assert "temperature differs (0.0, 0.6)" in text
    assert "worth about 1.6 points by itself" in text


def test_several_samples_make_problems_the_units() -> None:
    def sampled(arm: str, right: int) -> EvalResult:
        return result_of({f"p{k}": [k < right, k % 2 == 0, k < right] for k in range(40)}, arm)

    (pair,) = compare_results([sampled("grpo", 10), sampled("agon", 20)]).pairs
    assert pair.test == "Student's t over per-problem differences"
    assert pair.difference.value == pytest.approx(10 * 2 / 3 / 40)


def test_one_arm_alone_is_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="seeds of one arm"):
        compare_results([result("agon", {1}, seed=0), result("agon", {2}, seed=1)])


def test_what_is_not_a_result_is_answered_in_two_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"schema": 1}))
    assert main(["compare", str(path), str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_results_files_and_runs_can_be_compared(tmp_path: Path) -> None:
    first, second = result("grpo", {1, 2}), result("agon", {2, 3})
    write_record(tmp_path / "second.json", second)
    assert compare(first, tmp_path / "second.json") == compare(first, second) == compare_results([first, second])


def test_a_hostile_name_breaks_neither_the_table_nor_the_terminal() -> None:
    odd = result("agon\n| x | <b>\x1b[2J\u202e|", {2, 3})
    found = compare_results([result("grpo", {1, 2}), odd])
    for text in (str(found), found.markdown()):
        assert not any(unicodedata.category(letter) in {"Cc", "Cf"} for letter in text.replace("\n", ""))
    assert len(str(found).splitlines()) == len(
        str(compare_results([result("grpo", {1}), result("x", {2})])).splitlines()
    )
    rows = [line for line in found.markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 4 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows[:4]} == {7}
    assert "<b>" not in found.markdown()


def test_the_price_stands_beside_the_gain() -> None:
    """Two passes against one is said in the table and under it; equal passes need no word."""
    single, pair = result("grpo", {1, 2}, system="a"), result("agon", {1, 2, 3})
    tokens = pair.measured.tokens
    both = tokens.model_copy(update={"draft": tokens.final})
    pair = pair.model_copy(update={"measures": pair.measured.model_copy(update={"tokens": both})})
    found = compare_results([single, pair])
    assert [side.passes for side in found.sides] == [1, 2]
    assert "not at equal cost: agon cascade answers in two passes" in str(found)
    assert "tokens per answer" in str(found)
    assert "tokens per answer" in found.markdown()
    assert "not at equal cost" not in str(compare_results([single, result("coop", {4}, system="a")]))
