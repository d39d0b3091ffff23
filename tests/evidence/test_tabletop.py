"""The tabletop matrix as data (evidence/_tabletop.py): what its cells are, and how a cell's bouts become its result."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from _tabletop import MAIN, PILOT, CellResult, SystemResult, cells, fact_counts, system_result  # noqa: E402
from agon.config import load_config  # noqa: E402
from agon.data.tabletop.halves import KnownTo, known_to  # noqa: E402
from agon.data.tabletop.lessons import Beliefs, truth  # noqa: E402
from agon.data.tabletop.worlds import WORLDS  # noqa: E402


def answer(value: int) -> str:
    return f"<think>\nStart = 1\n</think>\nRecap:\n<answer>{value}</answer>"


def row(problem: str, index: int, value: int, right: int = 7) -> dict[str, object]:
    return {
        "problem_id": problem,
        "index": index,
        "draft_text": answer(value),
        "draft_correct": value == right,
        "draft_tokens": 10 + index,
    }


def test_every_stop_of_the_matrix_is_balanced_and_no_seed_is_a_pilots() -> None:
    planned = cells()
    assert len({(cell.world, cell.name) for cell in planned}) == len(planned) == 261
    whole = len(WORLDS) * len(MAIN)
    for seed in range(10):
        block = planned[seed * whole : (seed + 1) * whole]
        assert {(cell.world, cell.arm, cell.seed) for cell in block} == {(w, a, seed) for w in WORLDS for a in MAIN}
    assert max(cell.seed for cell in planned) < PILOT


def test_every_cell_has_a_config_that_loads() -> None:
    for cell in {(cell.world, cell.arm, cell.variant): cell for cell in cells()}.values():
        config = load_config(cell.config, [f"arm={cell.arm}", *cell.overrides])
        assert config.arm == cell.arm
        assert config.eval.samples == 4
        assert config.data.held_out.take == 500


def test_bouts_become_digits_a_majority_and_pass_at_two() -> None:
    rows = [row("q", i, value) for i, value in enumerate((7, 1, 7, 2))] + [row("p", i, 3) for i in range(4)]
    result = system_result("neutral", rows, "draft")
    assert (result.right, result.majority) == ("02", "01")
    assert result.rate == 0.25
    assert result.either_of_two == (0 + 5 / 6) / 2
    assert (result.final_tokens, result.all_tokens) == (11.5, 11.5)
    tied = system_result("neutral", [row("p", i, value) for i, value in enumerate((1, 7, 2, 7))], "draft")
    assert tied.majority == "0"


def test_steps_are_counted_by_who_knew_the_fact() -> None:
    world = WORLDS["halves"]
    known = known_to(Beliefs(world.seed, world.mixture))
    value, operation, operand = next(fact for fact, who in known.items() if who is KnownTo.B)
    right = truth(value, operation, operand)
    text = f"<think>\nStart = {value}\na) {operation} {operand} = {{}}\n</think>"
    counts = fact_counts("halves", [text.format(right), text.format((right + 1) % 17), "no start"])
    assert counts == {"both": (0, 0), "a": (0, 0), "b": (1, 2), "nobody": (0, 0)}


def test_a_result_comes_back_from_its_file(tmp_path: Path) -> None:
    systems = {name: SystemResult("04", "01", 33.0, 66.0, {"a": (1, 2)}) for name in ("ab", "ba")}
    facts = {"world": "halves", "arm": "agon", "variant": "", "seed": 3, "steps": 50, "rollouts": 6400, "generated": 1}
    made = CellResult(**facts, cpu_seconds=99.5, commit="c0ffee", bonus_bites=0.25, systems=systems)  # type: ignore[arg-type]
    made.write(tmp_path / "x" / "cell.json")
    back = CellResult.read(tmp_path / "x" / "cell.json")
    assert back.rate == made.rate == 0.5
    assert (back.seed, back.bonus_bites) == (3, 0.25)
