"""The figures of the tabletop matrix: every comparison by world, and the three verdicts for the front page."""

from __future__ import annotations

from pathlib import Path

from _tabletop import CellPlan, CellResult
from _tabletop_compare import COMPARISONS, compared
from agon.data.tabletop.worlds import WORLDS
from agon.report.figures import BLUE, GOLD, GREY, INK, _pyplot

QUESTIONS = {
    "E2": "A pair that reads each other,\nagainst one policy that rereads itself",
    "E3": "A pair trained to read each other,\nagainst a pair trained apart",
    "C1": "The same pair with the bonus,\nagainst no bonus",
}


def draw(done: dict[CellPlan, CellResult], path: Path) -> None:
    """One panel per world; the same results give the same file."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, len(WORLDS), figsize=(10, 2.6), sharey=True, sharex=True)
    for axes, world in zip(panels, WORLDS, strict=True):
        for row, (key, difference) in enumerate(compared(done, world).items()):
            if difference.interval is None:
                continue
            value, low, high = (100 * x for x in difference.interval)
            colour = BLUE if key == "C1" else GOLD
            axes.errorbar(value, row, xerr=[[value - low], [high - value]], fmt="o", ms=5, capsize=3, color=colour)
        axes.axvline(0, color=GREY, lw=1)
        axes.set_title(world)
        axes.set_xlabel("difference, points")
    panels[0].set_yticks(range(len(COMPARISONS)), COMPARISONS)
    panels[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def draw_front(done: dict[CellPlan, CellResult], path: Path) -> None:
    """The three verdicts in the words of the front page, one row per world; the same results give the same file."""
    plt = _pyplot()
    figure, panels = plt.subplots(len(QUESTIONS), 1, figsize=(7.6, 4.2), sharex=True)
    worlds = {world: compared(done, world) for world in WORLDS}
    for axes, (key, question) in zip(panels, QUESTIONS.items(), strict=True):
        axes.axvline(0, color=GREY, lw=1)
        for row, world in enumerate(WORLDS):
            interval = worlds[world][key].interval
            if interval is None:
                continue
            value, low, high = (100 * x for x in interval)
            clear = low > 0 or high < 0
            axes.errorbar(
                value, row, xerr=[[value - low], [high - value]], fmt="o", ms=5, color=BLUE if clear else GREY, lw=2
            )
            axes.annotate(f"{value:+.1f}", (high, row), (6, -3), textcoords="offset points", fontsize=8, color=INK)
        axes.set_yticks(range(len(WORLDS)), WORLDS, fontsize=8)
        axes.set_ylim(len(WORLDS) - 0.4, -0.6)
        axes.text(-0.2, 0.5, question, transform=axes.transAxes, ha="right", va="center", fontsize=9, color=INK)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(left=False)
    panels[-1].set_xlabel("difference in points, with 95% intervals over ten seeds; blue where it excludes zero")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)
