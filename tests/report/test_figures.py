"""Figures: bands of seeds, and labels that cover neither each other nor a point."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from agon.report.collect import MeasuredRun
from agon.report.figures import _pyplot, band, bars, curves
from agon.report.labels import LabelledPoint, place_labels


def test_curves_of_several_seeds_share_their_points(runs: list[MeasuredRun]) -> None:
    points = band([run for run in runs if run.arm == "agon"])
    assert list(points) == [0, 80, 160, 240]
    assert all(low <= mean <= high for mean, low, high in points.values())


def test_a_curve_of_seeds_that_agree_is_not_certain(runs: list[MeasuredRun]) -> None:
    one = runs[0]
    assert band([one, replace(one, seed=9)]) == band([one])
    assert all(low < mean < high for mean, low, high in band([one]).values())


def test_runs_without_a_common_point_have_no_band(runs: list[MeasuredRun]) -> None:
    assert band([runs[0], replace(runs[0], points=())]) == {}


def test_figures_show_the_price_of_an_answer(runs: list[MeasuredRun]) -> None:
    plt = _pyplot()
    figure = bars(plt, runs, runs[0].setting)
    below = [text.get_text() for text in figure.axes[0].texts]
    names = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    plt.close(figure)
    assert names == ["zero-shot", "GRPO", "GRPO twice", "MoA", "coop", "Agon"]
    assert "1 pass, 500 tokens\nn 120, 1 seed" in below
    assert sum(text.startswith("2 passes, 1.0k tokens") for text in below) == 3
    figure = curves(plt, runs, runs[0].setting)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    plt.close(figure)
    assert any(text.startswith("agon: 2 passes") for text in legend)
    assert any(text.startswith("grpo: 1 pass,") for text in legend)


@pytest.mark.parametrize("seed", range(4))
def test_labels_cover_neither_each_other_nor_a_point_nor_a_whisker(seed: int) -> None:
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    plt, rng = _pyplot(), random.Random(seed)
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    crowded = (
        [(540 + k % 3, 30 + k) for k in range(6)] if not seed else [(rng.random(), rng.random()) for _ in range(8)]
    )
    points = [LabelledPoint(x, y, y - 0.1, y + 0.1, f"method {k}", "black") for k, (x, y) in enumerate(crowded)]
    for point in points:
        axes.errorbar(point.x, point.y, 0.1, fmt="o")
    axes.margins(0.22)
    place_labels(axes, points)
    figure.draw_without_rendering()
    words = [Text.get_window_extent(text) for text in axes.texts]
    whiskers = [Bbox(axes.transData.transform([(point.x, point.low), (point.x, point.high)])) for point in points]
    plt.close(figure)
    assert not any(one.overlaps(two) for one, two in combinations(words, 2))
    assert not any(label.overlaps(whisker) for label in words for whisker in whiskers)
