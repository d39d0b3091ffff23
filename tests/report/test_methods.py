"""Cells: numbers are those on disk, with the interval that their number of seeds allows."""

from __future__ import annotations

from pathlib import Path

from agon.config.arms import ARMS
from agon.eval.intervals import t_interval
from agon.report.collect import HELD_OUT, MeasuredRun, collect
from agon.report.methods import METHODS, cell, limits
from agon.report.tables import main_table
from agon.rundir.results import Interval

from .helpers import N, make_study


def test_one_seed_keeps_its_own_interval(runs: list[MeasuredRun]) -> None:
    one = cell(runs, "grpo", HELD_OUT)
    assert one is not None
    run = next(run for run in runs if run.arm == "grpo")
    assert one.rate == run.results[HELD_OUT, "a"].measured.pass_rate
    assert (one.n, one.passes, one.length) == (str(N), 1, 400 + 3 * run.results[HELD_OUT, "a"].measured.correct)


def test_several_seeds_get_an_interval_over_seeds(runs: list[MeasuredRun]) -> None:
    one = cell(runs, "agon", HELD_OUT)
    assert one is not None
    rates = [run.results[HELD_OUT, "cascade"].measured.pass_rate for run in runs if run.arm == "agon"]
    wanted = t_interval([rate.value for rate in rates if rate], floor=0.0, ceiling=1.0)
    assert (one.rate.value, one.rate.low, one.rate.high) == (wanted.value, wanted.low, wanted.high)
    assert (one.seeds, one.kind, one.passes) == ([0, 1, 2], "Student, over seeds", 2)


def test_seeds_that_agree_exactly_do_not_make_a_number_certain(tmp_path: Path) -> None:
    paths = make_study(tmp_path, {"coop": 2})
    files = [path / "evals" / HELD_OUT / "cascade.json" for path in paths]
    files[1].write_text(files[0].read_text())
    one = cell(collect(paths), "coop", HELD_OUT)
    assert one is not None
    low, high = limits(one.rate)
    assert low < one.rate.value < high
    assert "the seeds being equal" in one.kind


def test_the_bare_base_counts_once_per_seed(runs: list[MeasuredRun]) -> None:
    one = cell(runs, "zero-shot", HELD_OUT)
    assert one is not None
    assert [run.seed for run in one.runs] == [0, 1, 2]


def test_a_method_is_measured_as_its_arm_is_deployed() -> None:
    systems = {method.key: method.system for method in METHODS}
    assert set(ARMS) <= systems.keys()
    assert (systems["agon"], systems["grpo"], systems["self-refine"]) == ("cascade", "a", "self-refine")
    assert (systems["shared-opponent"], systems["zero-shot"], systems["moa"]) == ("single-pass", "base", "moa")


def test_an_unbounded_limit_of_a_share_is_zero_or_one() -> None:
    assert limits(Interval(0.5, None, None)) == (0.0, 1.0)


def test_runs_that_share_a_seed_are_not_called_seeds(tmp_path: Path) -> None:
    paths = [make_study(tmp_path / name, {"agon": 1})[0] for name in ("slow", "fast")]
    file = paths[1] / "evals" / HELD_OUT / "cascade.json"
    file.write_text((file.with_name("ba.json")).read_text().replace('"ba"', '"cascade"', 1))
    runs = collect(paths)
    one = cell(runs, "agon", HELD_OUT)
    assert one is not None
    assert (one.seeds, one.kind) == ([0], "Student, over runs")
    row = next(line for line in main_table(runs, runs[0].setting).splitlines() if "Agon (comp" in line)
    assert "| 0 (2 runs) |" in row
