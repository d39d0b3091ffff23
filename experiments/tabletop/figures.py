"""The figures of the pages of results, as SVG; the same results give the same file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from results import Difference

BLUE, GOLD, GREY, INK = "#6366F1", "#F59E0B", "#9CA3AF", "#1F2337"
FRONT = {
    "E2": "A pair that reads each other,\nagainst one policy that rereads itself",
    "E3": "A pair trained to read each other,\nagainst a pair trained apart",
    "C1": "The same pair with the bonus,\nagainst no bonus",
}
matplotlib.use("Agg")
plt.rcParams.update({
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#c3c7d6",
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.grid": True, "grid.color": "#eceef4",
    "axes.axisbelow": True, "svg.hashsalt": "agon", "svg.fonttype": "none", "figure.facecolor": "white",
    "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left", "text.parse_math": False,
})  # fmt: skip


def by_world(compared: Mapping[str, Mapping[str, Difference]], keys: Sequence[str], path: Path) -> None:
    """Every comparison, one panel per world."""
    figure, panels = plt.subplots(1, len(compared), figsize=(10, 2.6), sharey=True, sharex=True)
    for axes, (world, found) in zip(panels, compared.items(), strict=True):
        for row, (key, difference) in enumerate(found.items()):
            value, bars = _bars(difference)
            axes.errorbar(value, row, xerr=bars, fmt="o", ms=5, capsize=3, color=BLUE if key == "C1" else GOLD)
        axes.axvline(0, color=GREY, lw=1)
        axes.set_title(world)
        axes.set_xlabel("difference, points")
    panels[0].set_yticks(range(len(keys)), keys)
    panels[0].invert_yaxis()
    _save(figure, path)


def front(compared: Mapping[str, Mapping[str, Difference]], path: Path) -> None:
    """The three verdicts in the words of the front page, one row per world."""
    figure, panels = plt.subplots(len(FRONT), 1, figsize=(7.6, 4.2), sharex=True)
    for axes, (key, question) in zip(panels, FRONT.items(), strict=True):
        axes.axvline(0, color=GREY, lw=1)
        for row, found in enumerate(compared.values()):
            _, low, high = (100 * x for x in found[key].interval)
            value, bars = _bars(found[key])
            axes.errorbar(value, row, xerr=bars, fmt="o", ms=5, color=BLUE if low > 0 or high < 0 else GREY, lw=2)
            axes.annotate(f"{value:+.1f}", (high, row), (6, -3), textcoords="offset points", fontsize=8, color=INK)
        axes.set_yticks(range(len(compared)), compared, fontsize=8)
        axes.set_ylim(len(compared) - 0.4, -0.6)
        axes.text(-0.2, 0.5, question, transform=axes.transAxes, ha="right", va="center", fontsize=9, color=INK)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(left=False)
    panels[-1].set_xlabel("difference in points, with 95% intervals over ten seeds; blue where it excludes zero")
    _save(figure, path, facecolor="white")


def dots(rows: Mapping[str, Mapping[str, Difference]], path: Path) -> None:
    """One row per measure, one dot per side of it."""
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.55 * len(rows)))
    for row, sides in enumerate(rows.values()):
        for place, (label, difference) in enumerate(sides.items()):
            value, bars = _bars(difference)
            y, colour = row + 0.3 * (place - (len(sides) - 1) / 2), (BLUE, GOLD)[place]
            name = label if row == 0 else None
            axes.errorbar(value, y, xerr=bars, fmt="o", ms=5, capsize=3, color=colour, label=name)
    axes.axvline(0, color=GREY, lw=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("difference, points")
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _bars(difference: Difference) -> tuple[float, list[list[float]]]:
    """The mean in points, and how far its interval reaches below and above."""
    value, low, high = (100 * x for x in difference.interval)
    return value, [[value - low], [high - value]]


def _save(figure, path: Path, **look: str) -> None:  # type: ignore[no-untyped-def]
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, **look)
    plt.close(figure)
