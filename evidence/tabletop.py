"""Every number of docs/results/tabletop.md follows from the raw results of the tabletop matrix.

The page and its figure are made again from docs/results/raw and must equal those on disk; no cell of the plan may be
missing, and each must have drawn the rollouts that the plan gives it. `scripts/tabletop_matrix` makes the raw results,
and with `--page` the page and the figure.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from _lib import arguments, verdict
from _tabletop import FIGURE, PAGE, CellPlan, CellResult, cells, finished
from _tabletop_figure import draw
from _tabletop_page import page

ROLLOUTS = 6400


def main() -> None:
    arguments(__doc__ or "")
    done = finished()
    bent = [f"{cell.world} {cell.name}" for cell, result in done.items() if not as_planned(cell, result)]
    missing = [f"{cell.world} {cell.name}" for cell in cells() if cell not in done]
    made = page(done)
    print(made)
    same = {"page": PAGE.read_text() == made, "figure": FIGURE.read_text() == drawn(done)}
    verdict(
        "every number of docs/results/tabletop.md follows from the raw results, and every cell has its budget",
        len(done),
        "page and figure on disk are those made from the raw results; no cell is missing or off its budget",
        all(same.values()) and not missing and not bent,
        same=same,
        missing_cells=missing,
        off_budget=bent,
    )


def drawn(done: dict[CellPlan, CellResult]) -> str:
    """The figure as SVG."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "figure.svg"
        draw(done, file)
        return file.read_text()


def as_planned(cell: CellPlan, result: CellResult) -> bool:
    """Whether a result is of its cell, with the rollouts that the plan gives it."""
    wanted = {"half-budget": ROLLOUTS // 2, "long": 3 * ROLLOUTS}.get(cell.variant, ROLLOUTS)
    facts = (result.world, result.arm, result.variant, result.seed, result.rollouts)
    return facts == (cell.world, cell.arm, cell.variant, cell.seed, wanted)


if __name__ == "__main__":
    main()
