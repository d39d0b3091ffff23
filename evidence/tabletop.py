"""Every number of the tabletop pages under docs/results follows from the raw results.

Pages and figures are made again from docs/results/raw and must equal those on disk; no cell of the first matrix may be
missing, and each cell must have drawn the rollouts that its plan gives it. Cells of docs/results/competition-plan.md
that are not done yet are counted, and their pages say so. `scripts/tabletop_matrix` makes the raw results, and with
`--page` the pages and the figures.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from _competition import PLANS
from _competition_page import ASSETS, figures, pages
from _lib import arguments, verdict
from _tabletop import FIGURE, FRONT, PAGE, TABLES, CellPlan, CellResult, cells, finished
from _tabletop_figure import draw, draw_front
from _tabletop_page import answers, tables
from agon.data.tabletop.worlds import READERS

ROLLOUTS = 6400
LANGUAGE_ROLLOUTS = 3072
"""32 steps of 6 problems, 16 rollouts of each: part L."""


def main() -> None:
    arguments(__doc__ or "")
    done = finished()
    later = {part: finished(planned()) for part, planned in PLANS.items()}
    both = [*done.items(), *(item for cells in later.values() for item in cells.items())]
    bent = [f"{cell.world} {cell.name}" for cell, result in both if not as_planned(cell, result)]
    missing = [f"{cell.world} {cell.name}" for cell in cells() if cell not in done]
    made = answers(done)
    print(made)
    same = {PAGE.name: PAGE.read_text() == made, TABLES.name: TABLES.read_text() == tables(done)}
    same["tabletop.svg"] = FIGURE.read_text() == drawn(draw, done)
    same["verdicts.svg"] = FRONT.read_text() == drawn(draw_front, done)
    same |= {path.name: path.exists() and path.read_text() == text for path, text in pages(done).items()}
    with tempfile.TemporaryDirectory() as scratch:
        for file in figures(done, Path(scratch)):
            same[file.name] = (ASSETS / file.name).exists() and (ASSETS / file.name).read_text() == file.read_text()
    print(json.dumps(same))
    verdict(
        "every number of the tabletop pages follows from the raw results, and every cell has its budget",
        len(both),
        "pages and figures on disk are those made from the raw results; no cell of the matrix is missing or off budget",
        all(same.values()) and not missing and not bent,
        same=same,
        missing_cells=missing,
        to_come={part: len(planned()) - len(later[part]) for part, planned in PLANS.items()},
        off_budget=bent,
    )


def drawn(draw: Callable[[dict[CellPlan, CellResult], Path], None], done: dict[CellPlan, CellResult]) -> str:
    """A figure as SVG."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "figure.svg"
        draw(done, file)
        return file.read_text()


def as_planned(cell: CellPlan, result: CellResult) -> bool:
    """Whether a result is of its cell, with the rollouts that the plan gives it."""
    wanted = {"half-budget": ROLLOUTS // 2, "long": 3 * ROLLOUTS}.get(cell.variant, ROLLOUTS)
    wanted *= 4 if cell.world in READERS else 1
    wanted = LANGUAGE_ROLLOUTS if cell.world == "smollm2" else wanted
    facts = (result.world, result.arm, result.variant, result.seed, result.rollouts)
    return facts == (cell.world, cell.arm, cell.variant, cell.seed, wanted)


if __name__ == "__main__":
    main()
