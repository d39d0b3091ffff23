"""The way from a card to a result: recipes that keep to their hours, and a page that agrees with the plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agon.config import load_config
from agon.matrix.cells import cells
from agon.plan.estimate import count, total_steps
from agon.plan.gpus import Node, find_gpu
from agon.plan.hardware import plan_on

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "src" / "agon" / "recipes"


def hours(recipe: str, gpu: str, *words: str) -> float:
    plan = plan_on(load_config(RECIPES / f"{recipe}.yaml", words), Node(find_gpu(gpu)))
    assert plan.refusal is None
    assert plan.hours is not None
    assert plan.hours.run is not None
    return plan.hours.run / 3600


@pytest.mark.parametrize(("gpu", "words"), [("t4", ["model.dtype=float16"]), ("16", []), ("l4", [])])
def test_smoke_is_twenty_steps_in_under_half_an_hour_on_16_gb(gpu: str, words: list[str]) -> None:
    config = load_config(RECIPES / "smoke.yaml", words)
    assert total_steps(config, count(config.data)) == 20
    assert hours("smoke", gpu, *words) < 0.5


@pytest.mark.parametrize("gpu", ["4090", "3090"])
def test_three_arms_take_a_day_on_24_gb(gpu: str) -> None:
    assert 12 < sum(hours("deepmath-day", gpu, f"arm={arm}") for arm in ("agon", "coop", "grpo")) < 24


def test_a_day_is_the_paper_with_fewer_problems_and_shorter_completions() -> None:
    day, paper = load_config(RECIPES / "deepmath-day.yaml"), load_config(RECIPES / "deepmath-hard.yaml")
    assert (day.game, day.model, day.verifier) == (paper.game, paper.model, paper.verifier)
    assert day.train.learning_rate == paper.train.learning_rate
    assert day.data.held_out == paper.data.held_out


@pytest.mark.slow
def test_the_page_agrees_with_the_plan() -> None:
    done = subprocess.run([sys.executable, "scripts/generate_reproduce_docs", "--check"], cwd=ROOT, timeout=300)
    assert done.returncode == 0


def test_the_commands_of_the_page_name_all_rows_of_the_table(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reproduce.md").read_text()
    arms = page.split("--arms zero-shot")[1].splitlines()[0]
    made = cells(ROOT / "configs/paper/main/agon.yaml", [], ["zero-shot", *arms.strip(",").split(",")], [0], tmp_path)
    assert {cell.arm for cell in made} == {
        *("zero-shot", "moa", "grpo", "self-refine", "shared-opponent", "coop", "agon"),
    }
    (day,) = (line for line in page.splitlines() if line.startswith("agon compare"))
    source = RECIPES / "deepmath-day.yaml"
    named = {cell.name for cell in cells(source, [], ["grpo", "coop", "agon"], [0], tmp_path)}
    assert {Path(word).name for word in day.split()[2:]} <= named
