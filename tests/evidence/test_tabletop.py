"""The tabletop matrix as data (evidence/_tabletop.py): what its cells are, and how a cell's bouts become its result."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.tree import ROOT, script

sys.path.insert(0, str(ROOT / "evidence"))
from _competition import STEPS, gullible_cells, repair_cells, split_cells
from _competition_page import (
    ExpectedDifference,
    agreement,
    agreement_figure,
    corrected,
    gullible,
    gullible_figure,
    splitting,
)
from _tabletop import (
    MAIN,
    PILOT,
    CellPlan,
    CellResult,
    DevPoint,
    SystemResult,
    cells,
    fact_counts,
    selective_counts,
    system_result,
)
from _tabletop_compare import QUESTIONS, Difference, broken_cells, compared
from _tabletop_page import answers, tables
from agon.config import load_config
from agon.data.tabletop.halves import KnownTo, known_to
from agon.data.tabletop.lessons import Beliefs, truth
from agon.data.tabletop.worlds import WORLDS
from agon.eval import intervals


def answer(value: int) -> str:
    return f"<think>\nStart = 1\n</think>\nRecap:\n<answer>{value}</answer>"


def row(problem: str, index: int, value: int, right: int = 7) -> dict[str, object]:
    return {
        "problem_id": problem,
        "index": index,
        "draft_text": answer(value),
        "draft_correct": value == right,
        "draft_tokens": 10 + index,
    }


def test_every_stop_of_the_matrix_is_balanced_and_no_seed_is_a_pilots() -> None:
    planned = cells()
    assert len({(cell.world, cell.name) for cell in planned}) == len(planned) == 273
    whole = len(WORLDS) * len(MAIN)
    for seed in range(10):
        block = planned[seed * whole : (seed + 1) * whole]
        assert {(cell.world, cell.arm, cell.seed) for cell in block} == {(w, a, seed) for w in WORLDS for a in MAIN}
    assert max(cell.seed for cell in planned) < PILOT


def test_every_cell_has_a_config_that_loads() -> None:
    for cell in {(cell.world, cell.arm, cell.variant): cell for cell in cells()}.values():
        config = load_config(cell.config, [f"arm={cell.arm}", *cell.overrides])
        assert config.arm == cell.arm
        assert config.eval.samples == 4
        assert config.data.held_out.take == 500


def test_bouts_become_digits_a_majority_and_pass_at_two() -> None:
    rows = [row("q", i, value) for i, value in enumerate((7, 1, 7, 2))] + [row("p", i, 3) for i in range(4)]
    result = system_result("neutral", rows, "draft")
    assert (result.right, result.majority) == ("02", "01")
    assert result.rate == 0.25
    assert result.either_of_two == (0 + 5 / 6) / 2
    assert (result.final_tokens, result.all_tokens) == (11.5, 11.5)
    tied = system_result("neutral", [row("p", i, value) for i, value in enumerate((1, 7, 2, 7))], "draft")
    assert tied.majority == "0"


def test_answering_only_where_passes_agree() -> None:
    def bout(index: int, draft: int, final: int) -> dict[str, object]:
        answered = {"challenge_text": answer(final), "challenge_correct": final == 7}
        return {**row("p", index, draft), **answered}

    ab = [bout(0, 7, 7), bout(1, 3, 3), bout(2, 7, 3), bout(3, 7, 7)]
    ba = [bout(0, 7, 7), bout(1, 7, 3), bout(2, 7, 7), bout(3, 7, 7)]
    counts = selective_counts(ab, ba)
    assert counts["always"] == [8, 5, 8]
    assert counts["draft and answer"] == [6, 5, 8]
    assert counts["both directions"] == [3, 2, 4]
    assert counts["2 drafts"] == [1, 1, 2]
    assert counts["4 drafts"] == [1, 1, 2]


def test_steps_are_counted_by_who_knew_the_fact() -> None:
    world = WORLDS["halves"]
    known = known_to(Beliefs(world.seed, world.mixture))
    value, operation, operand = next(fact for fact, who in known.items() if who is KnownTo.B)
    right = truth(value, operation, operand)
    text = f"<think>\nStart = {value}\na) {operation} {operand} = {{}}\n</think>"
    counts = fact_counts("halves", [text.format(right), text.format((right + 1) % 17), "no start"])
    assert counts == {"both": (0, 0), "a": (0, 0), "b": (1, 2), "nobody": (0, 0)}


def test_a_result_comes_back_from_its_file(tmp_path: Path) -> None:
    systems = {name: SystemResult("04", "01", 33.0, 66.0, {"a": (1, 2)}) for name in ("ab", "ba")}
    facts = {"world": "halves", "arm": "agon", "variant": "", "seed": 3, "steps": 50, "rollouts": 6400, "generated": 1}
    made = CellResult(**facts, cpu_seconds=99.5, commit="c0ffee", bonus_bites=0.25, systems=systems)  # type: ignore[arg-type]
    made.write(tmp_path / "x" / "cell.json")
    back = CellResult.read(tmp_path / "x" / "cell.json")
    assert back.rate == made.rate == 0.5
    assert (back.seed, back.bonus_bites) == (3, 0.25)


def cell_result(world: str, arm: str, seed: int, rates: dict[str, int]) -> CellResult:
    """A cell in which every system solves a number of four samples of each of ten problems."""
    facts = {who.value: (1, 2) for who in KnownTo}
    systems = {name: SystemResult(str(right) * 10, "1" * 10, 33.0, 66.0, facts) for name, right in rates.items()}
    return CellResult(world, arm, "", seed, 50, 6400, 1, 99.5, "c0ffee", 0.25 if arm == "agon" else None, systems)


def test_differences_are_paired_by_seed_and_corrected_within_a_claim() -> None:
    plans = {(cell.world, cell.name): cell for cell in cells()}
    done = {}
    for seed, (single, both) in enumerate(((1, 2), (1, 3), (2, 3), (0, 1))):
        done[plans["relay", f"grpo-s{seed}"]] = cell_result("relay", "grpo", seed, {"a": single, "self-cascade": 1})
        if seed < 3:
            done[plans["relay", f"coop-s{seed}"]] = cell_result(
                "relay", "coop", seed, dict.fromkeys(["a", "b", "ab", "ba"], both)
            )
    found = compared(done, "relay")
    assert found["E1"].values == [0.25, 0.5, 0.25]
    assert found["E2"].values == [0.25, 0.5, 0.5]
    assert found["E3"].values == []
    raw = sorted(p for key in ("E1", "E2") if (p := found[key].p_holm) is not None)
    assert len(raw) == 2
    assert raw[0] == min(1.0, 2 * intervals.t_test(found["E2"].values))  # type: ignore[operator]
    text = answers(done)
    assert "(so far: 3 of 10 seeds); expected near zero: **no**" in text
    assert f"7 of {len(cells())} runs are done" in text


def test_the_page_tells_transfer_and_points_along_the_run() -> None:
    plans = {(cell.world, cell.name): cell for cell in cells()}
    pair = ["a", "b", "ab", "ba"]
    shorter = cell_result("halves", "coop", 0, dict.fromkeys(pair, 3)).systems
    done = {
        plans["halves", "coop-s0"]: replace(cell_result("halves", "coop", 0, dict.fromkeys(pair, 2)), transfer=shorter)
    }
    for seed, (best, last) in enumerate(((4, 3), (3, 3), (3, 2))):
        run = cell_result("halves", "agon", seed, dict.fromkeys(pair, last))
        points = [DevPoint(step, 10, dict(zip(pair, (4, 5, 6, 7), strict=True)), 8) for step in (0, 50)]
        weights = cell_result("halves", "agon", seed, dict.fromkeys(pair, best)).systems
        done[plans["halves", f"agon-points-s{seed}"]] = replace(run, variant="points", points=points, best=weights)
    text = tables(done)
    assert "| halves | coop | 2 | 75.0 | 75.0 | 75.0 | 1 |" in text
    assert "| halves | 50 | 40.0 | 50.0 | 60.0 | 70.0 | 80.0 | 3 |" in text
    assert "- halves: +16.7 points" in text


def test_a_verdict_follows_the_rule_of_the_plan() -> None:
    above, below, wide = [0.02, 0.03, 0.025], [0.001, -0.002, 0.002], [-0.05, 0.05, 0.02]
    assert Difference(above, 0.01).verdict == "supported"
    assert Difference(above, 0.06).verdict == "undecided"
    assert Difference(below, 0.9).verdict == "not supported"
    assert Difference(wide, 0.9).verdict == "undecided"
    assert Difference([0.02]).verdict == "undecided"
    lower = Difference([-value for value in above], 0.01)
    assert lower.told.startswith("not supported (below zero): -2.5 points")
    assert Difference(below, 0.9).told.startswith("not supported: ")


def test_an_outcome_is_held_against_what_the_plan_expected() -> None:
    above, around = Difference([0.02, 0.03, 0.025], 0.01), Difference([-0.05, 0.05, 0.02], 0.9)
    assert [above.expected(outcome) for outcome in ("above zero", "near zero", "undecided")] == [True, False, False]
    assert [around.expected(outcome) for outcome in ("above zero", "near zero", "undecided")] == [False, True, True]


def test_an_effect_must_be_larger_to_be_found_among_four_tests() -> None:
    values = [0.02, 0.03, 0.025]
    assert Difference(values, 0.01, 4).detectable > Difference(values, 0.01).detectable  # type: ignore[operator]


def test_the_page_says_what_a_broken_cell_decides() -> None:
    plans = {(cell.world, cell.name): cell for cell in cells()}
    pair = ["a", "b", "ab", "ba"]
    done = {}
    for seed, right in enumerate((4, 3, 4, 0)):
        done[plans["relay", f"coop-s{seed}"]] = cell_result("relay", "coop", seed, dict.fromkeys(pair, right))
        alone = {"a": 2, "self-cascade": 2 + seed % 2}
        done[plans["relay", f"grpo-s{seed}"]] = cell_result("relay", "grpo", seed, alone)
    assert broken_cells(done) == [plans["relay", "coop-s3"]]
    assert "| relay | coop, seed 3 | exchange at inference | undecided: " in answers(done)
    assert "| grpo: self-cascade | 2 | 50.0 |  |  |  | **62.5** |" in tables(done)


def test_a_difference_is_told_with_what_it_rests_on() -> None:
    assert str(Difference([0.02])) == "not measured twice"
    assert str(Difference([0.02, 0.02, 0.02])) == "+2.0 points with every seed"
    assert str(Difference([0.02, 0.03, 0.025])).startswith("+2.5 points [+1.3, +3.7]")


def test_a_question_compares_arms_by_seed_and_says_what_is_missing() -> None:
    plans = {(cell.world, cell.name): cell for cell in cells()}
    done = {}
    for seed, (shown, hidden) in enumerate(((3, 2), (3, 1), (4, 2))):
        for arm, right in (("agon", shown), ("hidden-drafts", hidden)):
            result = cell_result("soft-halves", arm, seed, dict.fromkeys(["a", "b", "ab", "ba"], right))
            done[plans["soft-halves", f"{arm}-s{seed}"]] = result
    text = answers(done)
    assert "| soft-halves | agon - hidden-drafts | +41.7 points [+5.8, +77.5] | 3 |  |" in text
    assert "| soft-halves | agon - mispaired | not measured twice | 0 |" in text


def test_every_question_is_about_cells_of_the_matrix() -> None:
    planned = {(cell.world, cell.arm, cell.variant) for cell in cells()}
    asked = {(world, side.arm, side.variant) for q in QUESTIONS for world in q.worlds for side in (q.first, q.second)}
    assert asked <= planned


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner, with results in a folder of its own and cells that cost nothing."""
    module = script("tabletop_matrix")
    monkeypatch.setattr("_tabletop.RAW", tmp_path)
    monkeypatch.setattr(module, "tidy", lambda folder: None)
    monkeypatch.setattr(module, "run", lambda cell, out: cell_result(cell.world, cell.arm, cell.seed, {"a": 1}))
    return module


def test_the_matrix_continues_from_the_results_on_disk(
    matrix: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def go(*options: str) -> set[str]:
        monkeypatch.setattr(sys, "argv", ["tabletop_matrix", *options])
        matrix.main()
        return {f"{file.parent.name}/{file.stem}" for file in tmp_path.glob("*/*.json")}

    first = [f"{cell.world}/{cell.name}" for cell in cells()[:6]]
    assert go("--most", "2") == set(first[:2])
    assert go("--most", "2") == set(first[:4])
    assert f"{len(cells())} cells, {len(cells()) - 2} to do" in capsys.readouterr().out
    assert go("--part", "1/2", "--most", "1") == {*first[:4], first[5]}
    assert {*go("--worlds", "halves", "--most", "1")} - set(first) == {"halves/grpo-s0"}
    monkeypatch.setattr(matrix, "BUDGET", 300.0)
    before = go("--most", "0")
    assert go() == before
    assert "budget of the plan is used" in capsys.readouterr().out


def reading_result(cell: CellPlan, shift: int) -> CellResult:
    """A cell of the competition plan with made-up counts, the same at every point."""
    counts = {"draft_right": 20, "draft_wrong": 80, "conversions": 10 + shift, "regressions": 4, "echoes": 50 - shift}
    ways = ["ab", "ba", *(f"{way}-{kind}" for way in ("ab", "ba") for kind in ("own", "shuffled", "none"))]
    systems = {name: SystemResult(str(1 + shift) * 10, "1" * 10, 33.0, 66.0, {}, counts) for name in ways}
    systems |= {
        name: SystemResult("1" * 10, "1" * 10, 33.0, 33.0) for name in ("a", "b", "self-cascade", "self-cascade-b")
    }
    selective = dict.fromkeys(("always", "draft and answer", "both directions"), (8, 6, 10))
    selective |= dict.fromkeys(("2 drafts", "3 drafts", "4 drafts"), (5, 4, 10))
    return CellResult(
        cell.world, cell.arm, cell.variant, cell.seed, 200, 25600, 1, 9.5, "c0ffee", 0.2, systems, bonus_weight=1.4,
        along={str(step): systems for step in STEPS}, selective=selective,
    )  # fmt: skip


def test_pages_of_the_competition_plan_are_made_from_their_cells(tmp_path: Path) -> None:
    done = {
        cell: reading_result(cell, (cell.seed % 2) * (cell.arm == "agon"))
        for cell in [*gullible_cells(), *repair_cells(), *split_cells()]
        if cell.seed < 4
    }
    text = "\n".join(gullible(done))
    assert "12 of 30 cells are done" in text
    assert "| echoed: agon - coop | below zero | -0.6 points" in text
    assert "No verdict yet" in text
    assert "When draft and answer agree" in "\n".join(agreement(done))
    assert "reading one's own draft" in "\n".join(splitting(done, {}))
    gullible_figure(done, tmp_path / "g.svg")
    agreement_figure(done, tmp_path / "a.svg")
    assert (tmp_path / "g.svg").exists()


def test_a_prediction_counts_only_in_its_direction() -> None:
    up = Difference([0.02, 0.03, 0.025, 0.02])
    above, below = corrected([ExpectedDifference("x", up, 1), ExpectedDifference("y", up, -1)])
    assert (above.verdict, below.verdict) == ("as predicted", "against the prediction")
    (none,) = corrected([ExpectedDifference("z", Difference([0.1, -0.1, 0.05]), 1)])
    assert none.verdict == "undecided"
