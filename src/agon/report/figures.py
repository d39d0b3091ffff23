"""Figures 1 and 2 of the paper from our runs, as SVG and PNG: bars, accuracy against length, curves over training.

Whiskers and bands are the intervals of the tables. Where the setting is the paper's, its numbers stand as hollow or
dotted marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agon.errors import InputError, install
from agon.eval.intervals import t_interval, wilson
from agon.report import paper
from agon.report.cells import Cell, cell
from agon.report.collect import HELD_OUT, Run, Setting
from agon.report.escape import tame
from agon.report.labels import Mark, place

BLUE, GOLD, GREY, INK = "#6366F1", "#F59E0B", "#9CA3AF", "#1F2337"
BARS = ("zero-shot", "grpo", "moa", "coop", "agon")
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


def draw(runs: Sequence[Run], setting: Setting, folder: Path, stem: str) -> dict[str, str]:
    """Draw what there is data for; the file names of each figure by title."""
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


def _cells(runs: Sequence[Run], keys: Sequence[str]) -> dict[str, Cell]:
    return {key: found for key in keys if (found := cell(runs, key, HELD_OUT))}


def _in_paper(setting: Setting) -> bool:
    return (setting.base, setting.data) == (paper.BASE, paper.DATA)


def bars(plt: Any, runs: Sequence[Run], setting: Setting) -> Any:
    """Figure 1: pass@1 of the methods, with intervals; missing ones keep their place."""
    found = _cells(runs, BARS)
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(6.4, 3.3))
    for x, key in enumerate(BARS):
        if key not in found:
            axes.text(x, 1, "missing", ha="center", va="bottom", color=GREY, fontsize=9, style="italic")
            continue
        rate = found[key].rate
        value, low, high = 100 * rate.value, 100 * rate.low, 100 * rate.high
        axes.bar(x, value, width=0.62, color=COLOURS.get(key, "#CBD0DC"))
        axes.errorbar(x, value, [[value - low], [high - value]], color=INK, capsize=4, lw=1.1)
        axes.text(x - 0.06, value + 1, f"{value:.0f}", ha="right", va="bottom", fontweight="bold", color=INK)
    if _in_paper(setting):
        known = [paper.MAIN[key][0] for key in BARS]
        axes.scatter(range(len(BARS)), known, marker="_", s=900, color=INK, lw=1, ls=":", label="the paper")
        axes.legend(frameon=False, loc="upper left")
    axes.set_xticks(range(len(BARS)), [SHORT[key] for key in BARS])
    for x, key in enumerate(BARS):
        below = {"xytext": (0, -22), "textcoords": "offset points", "ha": "center", "va": "top"}
        axes.annotate(_behind(found.get(key)), (x, 0), annotation_clip=False, color="#6B7280", fontsize=7.5, **below)
    axes.set_xlim(-0.6, len(BARS) - 0.4)
    axes.set_ylim(0, min(108, 12 + max(100 * one.rate.high for one in found.values())))
    axes.set_ylabel("held-out pass@1 (%)")
    axes.grid(axis="x", visible=False)
    axes.tick_params(axis="x", length=0)
    axes.set_title(tame(str(setting)))
    return figure


def _behind(one: Cell | None) -> str:
    """How much stands behind a number."""
    return f"n {one.n}, {_seeds(len(one.results))}" if one else ""


def _seeds(number: int) -> str:
    return f"{number} seed{'s' if number > 1 else ''}"


def against_length(plt: Any, runs: Sequence[Run], setting: Setting) -> Any:
    """Figure 2a: pass@1 against mean final-stage tokens."""
    found = {key: one for key, one in _cells(runs, tuple(SHORT)).items() if one.length is not None}
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    marks = [_mark(key, one) for key, one in found.items()]
    for key, mark in zip(found, marks, strict=True):
        spread = [[mark.y - mark.low], [mark.high - mark.y]]
        axes.errorbar(mark.x, mark.y, spread, fmt="o", color=COLOURS.get(key, GREY), capsize=3, ms=7, lw=1)
    if _in_paper(setting):
        for key, (value, tokens) in paper.MAIN.items():
            axes.scatter(1000 * tokens, value, facecolors="none", edgecolors=COLOURS.get(key, GREY), s=50)
            marks.append(Mark(1000 * tokens, value, value, value, SHORT[key], GREY))
        axes.scatter([], [], facecolors="none", edgecolors=GREY, s=50, label="the paper")
        axes.legend(frameon=False)
    axes.margins(0.22)
    axes.set_ylim(max(0.0, axes.get_ylim()[0]), min(104.0, axes.get_ylim()[1]))
    axes.set_xlabel("mean tokens of the final stage")
    axes.set_ylabel("held-out pass@1 (%)")
    axes.set_title(f"Accuracy against length: {tame(str(setting))}")
    place(axes, marks)
    return figure


def _mark(key: str, one: Cell) -> Mark:
    rate = one.rate
    return Mark(one.length or 0.0, 100 * rate.value, 100 * rate.low, 100 * rate.high, SHORT[key], INK)


def curves(plt: Any, runs: Sequence[Run], setting: Setting) -> Any:
    """Figure 2b: dev pass@1 along training, by arm: the mean of seeds, with its interval."""
    by_arm: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if len(run.points) > 1:
            by_arm[run.arm].append(run)
    if not by_arm:
        return None
    figure, axes = plt.subplots(figsize=(7.4, 3.8))
    palette = iter(("#475569", "#0EA5A4", "#A855F7", "#64748B", "#DB2777", "#84A98C", "#94A3B8", "#3F6212"))
    ends = {arm: run.points[-1].step * run.problems_per_step for arm, (run, *_) in by_arm.items()}
    for k, (arm, group) in enumerate(sorted(by_arm.items())):
        colour = COLOURS.get(arm) or next(palette, GREY)
        aside = (k - (len(by_arm) - 1) / 2) * max(ends.values()) / 80
        _curve(axes, group, colour, aside if len(by_arm) > 1 else None)
        if _in_paper(setting) and arm in paper.CURVES:
            told = paper.CURVES[arm]
            axes.plot(range(0, 500 * len(told), 500), told, color=colour, ls=":", lw=1, marker="o", ms=4, mfc="none")
    if _in_paper(setting):
        axes.plot([], [], color=GREY, ls=":", lw=1, marker="o", ms=4, mfc="none", label="the paper, on its 300")
    axes.set_xlabel("training problems played (2N rollouts each)")
    axes.set_ylabel("dev pass@1 (%)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    axes.set_title(f"Over training: {tame(str(setting))}")
    return figure


def _curve(axes: Any, runs: Sequence[Run], colour: str, aside: float | None) -> None:
    """One arm: its interval as a band, or as whiskers set a little aside where arms would cover each other."""
    xs, mean, low, high = band(runs)
    arm, n = runs[0].arm, max(point.n for run in runs for point in run.points)
    look = {"color": colour, "ls": "--" if arm in DASHED else "-", "label": f"{arm}: n {n}, {_seeds(len(runs))}"}
    if aside is None:
        axes.plot(xs, mean, marker="o", ms=4, lw=1.8, **look)
        axes.fill_between(xs, low, high, color=colour, alpha=0.13, lw=0)
        return
    spread = [[m - a for m, a in zip(mean, low, strict=True)], [b - m for m, b in zip(mean, high, strict=True)]]
    axes.errorbar([x + aside for x in xs], mean, spread, marker="o", ms=4, lw=1.8, elinewidth=0.8, capsize=2, **look)


def band(runs: Sequence[Run]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Problems played, mean, and limits, at the points that all these runs share; as in tables, where seeds agree
    exactly the interval is that of one of them."""
    shared = sorted(set.intersection(*({point.step for point in run.points} for run in runs)))
    xs, mean, low, high = [], [], [], []
    for step in shared:
        points = [point for run in runs for point in run.points if point.step == step]
        if len({point.rate for point in points}) > 1:
            found = t_interval([point.rate for point in points], floor=0.0, ceiling=1.0)
        else:
            found = wilson(points[0].correct, max(1, points[0].n))
        xs.append(step * runs[0].problems_per_step)
        mean.append(100 * found.value)
        low.append(100 * found.low)
        high.append(100 * found.high)
    return xs, mean, low, high
