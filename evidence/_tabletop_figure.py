"""The figure of the tabletop matrix: every comparison of the plan by world, with its interval over seeds."""

from __future__ import annotations

from pathlib import Path

from _tabletop import CellPlan, CellResult
from _tabletop_compare import COMPARISONS, compared
from agon.data.tabletop.worlds import WORLDS
from agon.report.figures import BLUE, GOLD, GREY, _pyplot


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
