"""Every number of docs/results/tabletop.md follows from the raw results of the tabletop matrix.

The page is made again from docs/results/raw and must equal the one on disk, and every cell must have drawn the rollouts
that the plan gives it. `scripts/tabletop_matrix` makes the raw results, and with `--page` the page.
"""

from __future__ import annotations

from _lib import ROOT, arguments, verdict
from _tabletop import CellPlan, CellResult, cells
from _tabletop_page import page

PAGE = ROOT / "docs" / "results" / "tabletop.md"
ROLLOUTS = 6400


def main() -> None:
    arguments(__doc__ or "")
    done = {cell: CellResult.read(cell.result) for cell in cells() if cell.result.exists()}
    bent = [f"{cell.world} {cell.name}" for cell, result in done.items() if not as_planned(cell, result)]
    made = page(done) if done else ""
    print(made)
    on_disk = PAGE.read_text() if PAGE.exists() else ""
    verdict(
        "every number of docs/results/tabletop.md follows from the raw results, and every cell has its budget",
        len(done),
        "the page on disk is the page made from the raw results; no cell off its budget",
        bool(done) and on_disk == made and not bent,
        cells=len(cells()),
        off_budget=bent,
    )


def as_planned(cell: CellPlan, result: CellResult) -> bool:
    """Whether a result is of its cell, with the rollouts that the plan gives it."""
    wanted = {"half-budget": ROLLOUTS // 2, "long": 3 * ROLLOUTS}.get(cell.variant, ROLLOUTS)
    facts = (result.world, result.arm, result.variant, result.seed, result.rollouts)
    return facts == (cell.world, cell.arm, cell.variant, cell.seed, wanted)


if __name__ == "__main__":
    main()
