"""The cells of docs/results/competition-plan.md: tasks in which readers copy, and what a pair costs by splitting.

Results are files like those of the matrix (`_tabletop.py`), under docs/results/raw/WORLD/.
"""

from __future__ import annotations

from _repair_toy import Start, curve
from _smollm2 import SIZES, TAUGHT, is_gullible
from _tabletop import CellPlan

STEPS = (40, 80, 120, 160, 200)
"""Where both cascades are measured on dev, in cells of 200 steps."""
BONUS_4 = ("bonus4", ("game.conversion_weight=4.0",))


def gullible_cells() -> list[CellPlan]:
    """G: coop, agon, and agon with weight 4, ten seeds."""
    return [cell for seed in range(10) for cell in _three_arms("gullible", seed)]


def split_cells() -> list[CellPlan]:
    """S: grpo with the rollouts that one adapter of a pair gets, and coop whose policies also read their own drafts."""
    return [
        cell
        for seed in range(10)
        for world in ("neutral", "soft-halves")
        for cell in (
            CellPlan(world, "grpo", seed, "half-budget", ("game.group_size=4",)),
            CellPlan(world, "coop", seed, "own"),
        )
    ]


def _three_arms(world: str, seed: int) -> list[CellPlan]:
    return [CellPlan(world, "coop", seed), CellPlan(world, "agon", seed), CellPlan(world, "agon", seed, *BONUS_4)]


def repair_cells() -> list[CellPlan]:
    """R: copy or repair, twelve seeds."""
    return [cell for seed in range(12) for cell in _three_arms("repair", seed)]


RATES = (0.03, 0.1, 0.3)
"""Learning rates of the toy: its steps have no fixed ratio to a network's, so the curve is predicted for three."""


def prediction(start: Start) -> dict[str, dict[str, list[float]]]:
    """Accuracy of the challenges at STEPS by the toy's learning rate and arm."""
    arms = {"coop": 0.0, "agon": 1.0, "agon-bonus4": 4.0}

    def at(rate: float, weight: float) -> list[float]:
        return [round(value, 4) for value in curve(start, weight, rate, STEPS)]

    return {str(rate): {arm: at(rate, weight) for arm, weight in arms.items()} for rate in RATES}


def language_cells() -> list[CellPlan]:
    """L: a language model on two-digit sums, nine seeds; the arms of a seed follow each other."""
    arms = ("coop", "plain-pair", *(["agon"] if is_gullible() else []))
    return [language_cell(arm, seed) for seed in range(9) for arm in arms]


def language_cell(arm: str, seed: int, variant: str = "", *changes: str) -> CellPlan:
    """A cell on the taught base and its problems, which are outside the repository."""
    data = [f"data.{split}.path={TAUGHT / 'problems' / split}.jsonl" for split in SIZES]
    return CellPlan("smollm2", arm, seed, variant, (f"model.name={TAUGHT}", *data, *changes))


PLANS = {"G": gullible_cells, "S": split_cells, "R": repair_cells, "L": language_cells}
