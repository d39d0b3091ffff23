"""When a run evaluates, and against what."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.config import load_config
from agon.plan.schedule import Schedule, idle_engines

RECIPE = Path(__file__).resolve().parents[2] / "configs" / "paper" / "main" / "agon.yaml"


def schedule(*overrides: str) -> Schedule:
    return Schedule.of(load_config(RECIPE, overrides), problems=3000)


@pytest.mark.parametrize(
    ("when", "points"), [("end", {375}), ("never", set()), ("always", {62, 125, 188, 250, 312, 375})]
)
def test_first_versions_are_met_where_the_config_says(when: str, points: set[int]) -> None:
    made = schedule(f"eval.against_first={when}")
    assert {done for done in made.points if made.meets_first(done)} == points


def test_a_shorter_run_ends_earlier() -> None:
    made = schedule("train.max_steps=30")
    assert {done for done in made.points if made.meets_first(done)} == {30}


@pytest.mark.parametrize(("problems", "engines", "idle"), [(8, 8, False), (8, 9, True), (8, 0, False)])
def test_more_engines_than_problems_are_idle(problems: int, engines: int, idle: bool) -> None:
    warning = idle_engines(problems, engines)
    assert (warning is not None) is idle
    if warning:
        enough = int(warning.split("train.problems_per_step to ")[1].split()[0])
        assert idle_engines(enough, engines) is None, "what it advises is enough"
