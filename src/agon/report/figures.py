"""Figures 1 and 7 of the paper from our runs, as SVG and PNG: bars, accuracy against length, curves over training.

Whiskers and bands are the intervals of the tables. Where the setting is the paper's, its numbers are hollow or
dotted marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agon.errors import InputError, install
from agon.eval.intervals import t_interval, wilson
from agon.formatting import MISSING, kilo, show_hidden
from agon.report import paper
from agon.report.collect import HELD_OUT, MeasuredRun, Setting
from agon.report.curve import CurvePoint, Split, curve, split_of
from agon.report.labels import LabelledPoint, place_labels
from agon.report.methods import TableCell, cell, limits
from agon.rundir.results import Interval

BLUE, GOLD, GREY, INK = "#6366F1", "#F59E0B", "#9CA3AF", "#1F2337"
BARS = ("zero-shot", "grpo", "self-cascade", "moa", "coop", "agon")
SHORT = {
    "zero-shot": "zero-shot",
    "grpo": "GRPO",
    "self-refine": "self-refine",
    "self-cascade": "GRPO twice",
    "moa": "MoA",
    "shared-opponent": "shared",
    "coop": "coop",
    "agon": "Agon",
}
COLOURS = {"agon": BLUE, "coop": GOLD}
DASHED = {"self-refine", "shared-opponent", "fixed-roles"}
TWICE = {"cascade", "self-refine"}
"""What answers in two passes, of what an arm deploys."""
PAPER_LINE = {"ls": ":", "lw": 1, "marker": "o", "ms": 4, "mfc": "none"}


def draw(runs: Sequence[MeasuredRun], setting: Setting, folder: Path, stem: str) -> dict[str, str]:
    """Draw every figure that has data; return file names by title."""
    plt = _pyplot()
    made = {}
    for title, name, figure in (
        ("Pass@1 by method", "bars", bars(plt, runs, setting)),
        ("Accuracy against length", "length", against_length(plt, runs, setting)),
        ("Over training", "curves", curves(plt, runs, setting)),
    ):
        if figure is not None:
            for kind in ("svg", "png"):
                figure.savefig(folder / f"{stem}-{name}.{kind}", dpi=160, bbox_inches="tight", metadata=_bare(kind))
            plt.close(figure)
            made[title] = f"{stem}-{name}"
    return made


def _bare(kind: str) -> dict[str, None] | None:
    """No date inside, so that the same runs give the same file."""
    return {"Date": None} if kind == "svg" else None


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib", fix=f"{install('plot')}, or add --no-figures") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#c3c7d6",
        "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.grid": True, "grid.color": "#eceef4",
        "axes.axisbelow": True, "svg.hashsalt": "agon", "svg.fonttype": "none", "figure.facecolor": "white",
        "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left", "text.parse_math": False,
    }  # fmt: skip
    plt.rcParams.update(style)
    return plt


def _cells(runs: Sequence[MeasuredRun], keys: Sequence[str]) -> dict[str, TableCell]:
    return {key: one for key in keys if (one := cell(runs, key, HELD_OUT))}


def _percent(rate: Interval) -> tuple[float, float, float]:
    """The value and both limits, in percent."""
    low, high = limits(rate)
    return 100 * rate.value, 100 * low, 100 * high


def bars(plt: Any, runs: Sequence[MeasuredRun], setting: Setting) -> Any:
    """Figure 1: pass@1 of the methods, with intervals and the price of an answer; missing ones keep their place."""
    cells = _cells(runs, BARS)
    if not cells:
        return None
    figure, axes = plt.subplots(figsize=(7.2, 3.3))
    for x, key in enumerate(BARS):
        _bar(axes, x, key, cells.get(key))
    if paper.describes(setting.base, setting.data):
        known = [paper.MAIN[key][0] for key in BARS]
        axes.scatter(range(len(BARS)), known, marker="_", s=900, color=INK, lw=1, ls=":", label="the paper")
        axes.legend(frameon=False, loc="upper left")
    axes.set_xticks(range(len(BARS)), [SHORT[key] for key in BARS])
    axes.set_xlim(-0.6, len(BARS) - 0.4)
    axes.set_ylim(0, min(108, 12 + max(_percent(one.rate)[2] for one in cells.values())))
    axes.set_ylabel("held-out pass@1 (%)")
    axes.grid(axis="x", visible=False)
    axes.tick_params(axis="x", length=0)
    axes.set_title(show_hidden(str(setting)))
    return figure


def _bar(axes: Any, x: int, key: str, one: TableCell | None) -> None:
    """One method: its bar, whisker and value, with n and seeds below its name."""
    if one is None:
        axes.text(x, 1, MISSING, ha="center", va="bottom", color=GREY, fontsize=9, style="italic")
        return
    value, low, high = _percent(one.rate)
    axes.bar(x, value, width=0.62, color=COLOURS.get(key, "#CBD0DC"))
    axes.errorbar(x, value, [[value - low], [high - value]], color=INK, capsize=4, lw=1.1)
    axes.text(x - 0.06, value + 1, f"{value:.0f}", ha="right", va="bottom", fontweight="bold", color=INK)
    below = {"xytext": (0, -22), "textcoords": "offset points", "ha": "center", "va": "top", "annotation_clip": False}
    price = f"{_passes(one.passes)}, {kilo(one.tokens)} tokens"
    axes.annotate(f"{price}\nn {one.n}, {_seeds(len(one.runs))}", (x, 0), color="#6B7280", fontsize=7.5, **below)


def _passes(number: int) -> str:
    return f"{number} pass{'es' if number > 1 else ''}"


def _seeds(number: int) -> str:
    return f"{number} seed{'s' if number > 1 else ''}"


def against_length(plt: Any, runs: Sequence[MeasuredRun], setting: Setting) -> Any:
    """Figure 7a: pass@1 against mean tokens, of all stages: a draft is not free. The paper counts the final stage."""
    cells = _cells(runs, tuple(SHORT))
    if not cells:
        return None
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    points = [_labelled(key, one) for key, one in cells.items()]
    for key, point in zip(cells, points, strict=True):
        spread = [[point.y - point.low], [point.high - point.y]]
        axes.errorbar(point.x, point.y, spread, fmt="o", color=COLOURS.get(key, GREY), capsize=3, ms=7, lw=1)
    if paper.describes(setting.base, setting.data):
        for key, (value, tokens) in paper.MAIN.items():
            axes.scatter(1000 * tokens, value, facecolors="none", edgecolors=COLOURS.get(key, GREY), s=50)
            points.append(LabelledPoint(1000 * tokens, value, value, value, SHORT[key], GREY))
        axes.scatter([], [], facecolors="none", edgecolors=GREY, s=50, label="the paper (final stage only)")
        axes.legend(frameon=False)
    axes.margins(0.22)
    axes.set_ylim(max(0.0, axes.get_ylim()[0]), min(104.0, axes.get_ylim()[1]))
    axes.set_xlabel("mean tokens per answer, all stages")
    axes.set_ylabel("held-out pass@1 (%)")
    axes.set_title(f"Accuracy against length: {show_hidden(str(setting))}")
    place_labels(axes, points)
    return figure


def _labelled(key: str, one: TableCell) -> LabelledPoint:
    value, low, high = _percent(one.rate)
    return LabelledPoint(one.tokens, value, low, high, SHORT[key], INK)


def curves(plt: Any, runs: Sequence[MeasuredRun], setting: Setting) -> Any:
    """Figure 7b: pass@1 along training, by arm: the mean of seeds, with its interval."""
    by_arm: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        if len(run.points) > 1:
            by_arm[run.arm].append(run)
    if not by_arm:
        return None
    split = split_of([run for group in by_arm.values() for run in group])
    figure, axes = plt.subplots(figsize=(7.4, 3.8))
    palette = iter(("#475569", "#0EA5A4", "#A855F7", "#64748B", "#DB2777", "#84A98C", "#94A3B8", "#3F6212"))
    end = max(run.points[-1].step * run.problems_per_step for run, *_ in by_arm.values())
    known = paper.CURVES if paper.describes(setting.base, setting.data) else {}
    for k, (arm, group) in enumerate(sorted(by_arm.items())):
        colour = COLOURS.get(arm) or next(palette, GREY)
        aside = (k - (len(by_arm) - 1) / 2) * end / 80
        _curve(axes, group, split, colour, aside if len(by_arm) > 1 else None)
        if theirs := known.get(arm):
            axes.plot(range(0, 500 * len(theirs), 500), theirs, color=colour, **PAPER_LINE)
    if known:
        axes.plot([], [], color=GREY, label="the paper, on its 300", **PAPER_LINE)
    axes.set_xlabel("training problems played (2N rollouts each)")
    axes.set_ylabel(f"{split.replace('_', '-')} pass@1 (%)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    axes.set_title(f"Over training: {show_hidden(str(setting))}")
    return figure


def _curve(axes: Any, runs: Sequence[MeasuredRun], split: Split, colour: str, aside: float | None) -> None:
    """One arm: its interval as a band, or as whiskers set a little aside where arms would cover each other."""
    points = band(runs, split)
    xs, (mean, low, high) = list(points), ([values[k] for values in points.values()] for k in range(3))
    arm, n = runs[0].arm, max(point.n for run in runs for point in curve(run, split))
    label = f"{arm}: {_passes(2 if runs[0].headline in TWICE else 1)}, n {n}, {_seeds(len(runs))}"
    look = {"color": colour, "ls": "--" if arm in DASHED else "-", "label": label}
    if aside is None:
        axes.plot(xs, mean, marker="o", ms=4, lw=1.8, **look)
        axes.fill_between(xs, low, high, color=colour, alpha=0.13, lw=0)
        return
    spread = [[m - a for m, a in zip(mean, low, strict=True)], [b - m for m, b in zip(mean, high, strict=True)]]
    axes.errorbar([x + aside for x in xs], mean, spread, marker="o", ms=4, lw=1.8, elinewidth=0.8, capsize=2, **look)


def band(runs: Sequence[MeasuredRun], split: Split = "dev") -> dict[int, tuple[float, float, float]]:
    """Mean and both limits by problems played, at the points that all these runs share."""
    by_step = [{point.step: point for point in curve(run, split)} for run in runs]
    shared = sorted(set.intersection(*map(set, by_step)))
    return {step * runs[0].problems_per_step: _rate([points[step] for points in by_step]) for step in shared}


def _rate(points: Sequence[CurvePoint]) -> tuple[float, float, float]:
    """One step over seeds; as in tables, where seeds agree exactly the interval is that of one of them."""
    rates = [point.rate for point in points]
    if len(set(rates)) > 1:
        return _percent(t_interval(rates, floor=0.0, ceiling=1.0))
    return _percent(wilson(points[0].correct, max(1, points[0].n)))
