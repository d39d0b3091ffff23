"""The paper's tables: every number with n, seeds, interval and budget; what no run has measured is missing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agon.report import extra_tables, paper
from agon.report.collect import HELD_OUT, MeasuredRun, collect
from agon.report.methods import BY_KEY, METHODS, cell, limits
from agon.report.tables import MAIN, ablation_table, main_table, scaling_table, transfer_table

from .helpers import STEPS, N, make_study


def rows_of(table: str) -> dict[str, list[str]]:
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()]
    return {line[0]: line[1:] for line in lines[2:]}


def test_a_method_that_no_run_has_is_missing(runs: list[MeasuredRun]) -> None:
    rows = rows_of(main_table(runs, runs[0].setting))
    assert rows[BY_KEY["self-refine"].title][0] == "missing"
    assert rows[BY_KEY["agon"].title][0] != "missing"
    assert "missing" in transfer_table(runs, runs[0].setting)


def test_every_number_has_n_seeds_interval_and_budget(runs: list[MeasuredRun]) -> None:
    row = rows_of(main_table(runs, runs[0].setting))[BY_KEY["agon"].title]
    assert re.fullmatch(r"\d+\.\d \[\d+\.\d, \d+\.\d\]", row[0])
    assert row[3:7] == ["2", str(N), "0, 1, 2", "3,840, 210,000"]


def test_the_papers_numbers_stand_only_beside_its_own_setting(runs: list[MeasuredRun], tmp_path: Path) -> None:
    assert "the paper" not in main_table(runs, runs[0].setting)
    theirs = collect(make_study(tmp_path, {"agon": 1}, paper.BASE, paper.DATA))
    assert rows_of(main_table(theirs, theirs[0].setting))[BY_KEY["agon"].title][-2:] == ["61", "3.5k"]
    scaled = rows_of(scaling_table(theirs, paper.DATA))
    assert scaled["Qwen/Qwen3-4B"][0] == "missing"
    assert scaled["Qwen/Qwen3-4B"][-1] == "52 / 59 / 71"


def test_a_difference_is_that_of_its_cells(runs: list[MeasuredRun]) -> None:
    agon, coop = cell(runs, "agon", HELD_OUT), cell(runs, "coop", HELD_OUT)
    assert agon is not None
    assert coop is not None
    row = rows_of(ablation_table(runs, runs[0].setting))["Competition (reward)"]
    value, low, high = map(float, re.findall(r"[-+]\d+\.\d", row[2]))
    (a_low, a_high), (c_low, c_high) = limits(agon.rate), limits(coop.rate)
    a, c = agon.rate.value, coop.rate.value
    assert value == pytest.approx(100 * (a - c), abs=0.051)
    assert value - low == pytest.approx(100 * math.hypot(a - a_low, c_high - c), abs=0.11)
    assert high - value == pytest.approx(100 * math.hypot(a_high - a, c - c_low), abs=0.11)


def test_a_difference_from_agon_says_where_its_bonus_bites(runs: list[MeasuredRun]) -> None:
    row = rows_of(ablation_table(runs, runs[0].setting))["Competition (reward)"]
    assert row[3] == f"{100 * (STEPS // 2) / (8 * STEPS):.0f}% of groups"


def test_the_tables_hold_the_papers_numbers() -> None:
    assert {method.key for method in METHODS} >= {*paper.MAIN, *paper.ABLATIONS, *paper.DENSITY, *paper.CODE}
    assert set(MAIN) == set(paper.INTERVALS)
    for key, (value, _) in paper.MAIN.items():
        low, high = paper.INTERVALS[key]
        assert low < value < high
    for arm, values in paper.CURVES.items():
        assert round(values[-1]) == paper.MAIN[arm][0]


def test_both_directions_of_a_pair_are_printed(runs: list[MeasuredRun]) -> None:
    row = rows_of(extra_tables.direction_table(runs))["agon-s0"]
    both = [100 * runs[0].results[HELD_OUT, name].measured.pass_rate.value for name in ("ab", "ba")]  # type: ignore[union-attr]
    assert [float(number.split()[0]) for number in row[3:5]] == [pytest.approx(value, abs=0.051) for value in both]
    assert row[5:7] == ["AB", "dev"]


def test_conversions_are_those_of_the_result(runs: list[MeasuredRun]) -> None:
    exchange = runs[0].results[HELD_OUT, "ab"].measured.exchange
    assert exchange is not None
    line = next(line for line in extra_tables.exchange_table(runs).splitlines() if "held_out, ab" in line)
    assert f"({exchange.conversion.count}/{exchange.conversion.of})" in line


def test_runs_that_were_played_ahead_have_a_table(runs: list[MeasuredRun]) -> None:
    assert extra_tables.staleness_table(runs) == ""
    (line,) = extra_tables.staleness_table([replace(runs[0], staleness=[0, 1, 2, 2]), *runs[1:]]).splitlines()[2:]
    assert [cell.strip() for cell in line.split("|")[-4:-1]] == ["4", "1.25", "2"]


@pytest.mark.parametrize("table", [extra_tables.exchange_table, extra_tables.direction_table, extra_tables.pair_table,
                                   extra_tables.distance_table, extra_tables.cost_table])  # fmt: skip
def test_a_table_without_results_says_what_is_missing(table) -> None:  # type: ignore[no-untyped-def]
    assert table([]).endswith("missing.")
