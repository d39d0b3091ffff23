"""Curves: both directions together, or whatever the arm deploys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agon.report.collect import MeasuredRun, read_run
from agon.report.curve import curve, split_of

from .helpers import make_study


def test_a_point_of_a_pair_is_the_mean_of_both_directions(runs: list[MeasuredRun]) -> None:
    systems = runs[0].points[-1].systems
    last = curve(runs[0])[-1]
    assert last.rate == (systems["ab"].correct + systems["ba"].correct) / 200
    assert last.reward == pytest.approx(2 * last.rate + 0.5 * 0.9)


@pytest.mark.parametrize(
    ("arm", "names"), [("grpo", ["a"]), ("self-refine", ["self-refine"]), ("shared-opponent", ["a", "b"])]
)
def test_a_point_counts_what_the_arm_deploys(arm: str, names: list[str], tmp_path: Path) -> None:
    run = read_run(make_study(tmp_path, {arm: 1})[0])
    assert curve(run)[-1].correct == sum(run.points[-1].systems[name].correct for name in names)
    assert curve(run)[-1].n == 100 * len(names)


def test_a_run_without_points_has_no_curve(runs: list[MeasuredRun]) -> None:
    assert curve(replace(runs[0], points=())) == []


def test_a_point_without_verdicts_is_worth_its_format_alone(runs: list[MeasuredRun]) -> None:
    counts = runs[0].points[0].systems["a"].model_copy(update={"n": 0, "correct": 0, "ungraded": 100})
    point = runs[0].points[0].model_copy(update={"systems": {"a": counts}})
    assert [(p.n, p.rate, p.reward) for p in curve(replace(runs[0], points=[point]))] == [(0, 0.0, 0.45)]


def test_curves_are_on_held_out_where_every_point_of_every_run_measured_it(runs: list[MeasuredRun]) -> None:
    def measured(run: MeasuredRun, steps: set[int]) -> MeasuredRun:
        systems = {name: counts.model_copy(update={"correct": 7}) for name, counts in run.points[0].systems.items()}
        points = [p.model_copy(update={"held_out": systems if p.step in steps else None}) for p in run.points]
        return replace(run, points=points)

    everywhere, once = (measured(runs[0], steps) for steps in ({0, 10, 20, 30}, {30}))
    assert split_of([everywhere]) == "held_out"
    assert {split_of([once]), split_of([everywhere, runs[1]])} == {"dev"}
    assert [point.correct for point in curve(everywhere, "held_out")] == [14] * 4
    assert curve(everywhere) == curve(runs[0])
