"""The report of a matrix: cells on disk, a budget that is counted, and paired tests against the first arm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agon.algorithm import play
from agon.config.arms import resolve
from agon.engine.scripted import ScriptedSampler
from agon.game.rules import Game
from agon.report.collect import HELD_OUT, read_run
from agon.report.matrix_report import (
    CellBudget,
    CellReport,
    CellStatus,
    MatrixReport,
    matched,
    matrix_report,
    write_matrix_report,
)
from agon.rundir import RunDir
from agon.rundir.records import read_record
from agon.types import Problem

from .helpers import STEPS, N, make_study, verify

GROUP = 2
PLAYS = [["p0", "p1"], ["p1", "p2"]]
"""Problems by step."""


def write_bouts(path: Path, arm: str) -> None:
    """Play a few steps with the rules of an arm."""
    game = Game(**resolve(arm), group_size=GROUP)
    for step, names in enumerate(PLAYS):
        problems = [Problem(name, "What is 2 + 2?", "4") for name in names]
        sampler = ScriptedSampler(lambda request: f"<think>a</think>b<answer>{4 + request.seed % 2}</answer>")
        RunDir.open(path).write_bouts(step, asyncio.run(play(problems, step, game, sampler, verify)).bouts, arm)


def status(folder: Path, arm: str, seed: int, system: str, trains: bool = True) -> CellStatus:
    result = folder / "evals" / HELD_OUT / f"{system}.json"
    return CellStatus(folder.name, arm, seed, trains, folder, result, done=True)


@pytest.fixture
def cells(tmp_path: Path) -> list[CellStatus]:
    """Two arms with two seeds, in the order of a matrix: seeds outside, arms inside."""
    folders = {folder.name: folder for folder in make_study(tmp_path, {"grpo": 2, "agon": 2})}
    for name, folder in folders.items():
        write_bouts(folder, name.split("-")[0])
    systems = {"grpo": "a", "agon": "cascade"}
    return [status(folders[f"{arm}-s{k}"], arm, k, system) for k in (0, 1) for arm, system in systems.items()]


def test_a_report_holds_what_every_cell_measured_and_spent(cells: list[CellStatus], tmp_path: Path) -> None:
    report = write_matrix_report(cells, tmp_path)
    assert [cell.name for cell in report.cells] == ["grpo-s0", "grpo-s1", "agon-s0", "agon-s1"]
    for cell in report.cells:
        run = read_run(tmp_path / cell.name)
        assert cell.pass_rate == run.results[HELD_OUT, cell.system].measured.pass_rate
        assert cell.budget is not None
        assert (cell.budget.steps, cell.budget.draft_tokens) == (STEPS, run.spending.draft.generated)
        assert (cell.budget.plays, cell.budget.problems) == (4, ["p0", "p1", "p2"])
        assert (cell.budget.rollouts_per_problem, cell.budget.rollouts) == ([2 * GROUP], 4 * 2 * GROUP)
    assert report.matched
    assert read_record(tmp_path / "report.json", MatrixReport, "") == report


def test_nothing_trained_is_no_matched_budget(cells: list[CellStatus]) -> None:
    failed = [replace(cell, done=False) for cell in cells]
    report = matrix_report(failed, [])
    assert report.cells == []
    for text in (str(report), report.markdown()):
        assert "matched" not in text
        assert "Nothing was trained" in text


def test_the_page_is_the_report_of_the_runs_with_two_more_sections(cells: list[CellStatus], tmp_path: Path) -> None:
    report = write_matrix_report(cells, tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert page.startswith(report.markdown())
    for title in ("# Matrix: 2 arms, seeds 0, 1", "## Budget check", "## Paired comparison", "### Main comparison"):
        assert f"\n{title}\n" in f"\n{page}"
    assert "Rollouts are matched." in page


def test_the_price_stands_beside_the_gain(cells: list[CellStatus], tmp_path: Path) -> None:
    """GRPO is also shown as it answers in a pair's two passes, with the tokens of both."""
    report = write_matrix_report(cells, tmp_path)
    lines = [line.split(" | ") for line in report.markdown().splitlines() if line.startswith("| grpo-s0 |")]
    assert [(line[1], line[4], line[5].removesuffix(" |")) for line in lines[:2]] == [
        ("a", "1", "500"),
        ("self-cascade", "2", "1.0k"),
    ]
    assert report.comparison is not None
    sides = {side.label: (side.passes, side.tokens) for side in report.comparison.sides}
    assert sides == {"grpo a": (1, 500), "agon cascade": (2, 1000), "grpo self-cascade": (2, 1000)}
    assert "not at equal cost: agon cascade answers in two passes" in str(report)


def test_a_cell_that_is_not_done_is_missing_and_in_no_number(cells: list[CellStatus], tmp_path: Path) -> None:
    report = write_matrix_report([replace(cells[0], done=False), *cells[1:]], tmp_path)
    assert report.missing == ["grpo-s0"]
    assert "grpo-s0" not in {cell.name for cell in report.cells}
    assert "| grpo-s0 | missing |" in report.markdown()
    assert report.comparison is not None
    assert report.comparison.sides[0].label == "grpo a"


def test_a_lost_step_is_a_budget_that_is_not_matched(cells: list[CellStatus], tmp_path: Path) -> None:
    (cells[1].folder / "bouts" / "step_000001.parquet").unlink()
    report = write_matrix_report(cells, tmp_path)
    assert not report.matched
    assert "**Rollouts are not matched.**" in report.markdown()


def test_a_base_alone_is_compared_and_has_no_budget(cells: list[CellStatus], tmp_path: Path) -> None:
    folder = tmp_path / "zero-shot-s0"
    (folder / "evals" / HELD_OUT).mkdir(parents=True)
    source = cells[0].folder / "evals" / HELD_OUT / "base.json"
    source.rename(folder / "evals" / HELD_OUT / "base.json")
    base = status(folder, "zero-shot", 0, "base", trains=False)
    report = write_matrix_report([base, *cells], tmp_path)
    assert report.cells[0].budget is None
    assert report.comparison is not None
    assert report.comparison.problems == N
    alone = write_matrix_report([base], tmp_path / "alone")
    assert (alone.comparison, alone.matched) == (None, True)
    assert "zero-shot-s0" in (tmp_path / "alone" / "report.md").read_text()


def cell(seed: int, problems: Sequence[str], rollouts: list[int], plays: int = 2) -> CellReport:
    budget = CellBudget(
        steps=1, plays=plays, problems=list(problems), rollouts_per_problem=rollouts, rollouts=0, draft_tokens=0,
        challenge_tokens=0, prefilled=0,
    )  # fmt: skip
    return CellReport(
        name="", arm="", seed=seed, result="", system="", pass_rate=None, problems=1, ungraded=0, final_tokens=None,
        budget=budget,
    )  # fmt: skip


def test_a_budget_is_matched_when_problems_and_rollouts_are_the_same() -> None:
    assert matched([cell(0, "pq", [16]), cell(0, "pq", [16]), cell(1, "qr", [16])])
    assert not matched([cell(0, "pq", [16]), cell(0, "pq", [8])])
    assert not matched([cell(0, "pq", [8, 16])])
    assert not matched([cell(0, "pq", [16]), cell(0, "pr", [16])])
    assert not matched([cell(0, "pq", [16]), cell(0, "pq", [16], plays=3)])


def test_agon_is_compared_with_coop_beside_the_share_of_groups_in_which_the_bonus_bites(tmp_path: Path) -> None:
    folders = make_study(tmp_path, {"grpo": 2, "coop": 2, "agon": 2})
    for folder in folders:
        write_bouts(folder, folder.name.split("-")[0])
    systems = {"grpo": "a", "coop": "cascade", "agon": "cascade"}
    made = [status(f, f.name.split("-")[0], int(f.name[-1]), systems[f.name.split("-")[0]]) for f in folders]
    report = write_matrix_report(made, tmp_path)
    assert report.competition is not None
    assert [pair.second for pair in report.competition.pairs] == ["agon cascade"]
    assert report.competition.sides[0].label == "coop cascade"
    shares = {cell.bonus_bites for cell in report.cells if cell.arm == "agon"}
    assert shares == {(STEPS // 2) / (8 * STEPS)}
    assert "## Competition: agon against coop" in report.markdown()
    assert matrix_report(made[:2], []).competition is None
