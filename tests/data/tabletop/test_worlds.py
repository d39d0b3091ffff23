"""The worlds of the matrix: the bases that ship were made for the prompts of today and are small."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path

import pytest

from agon.config import load_config
from agon.data.tabletop.lessons import solve
from agon.data.tabletop.problems import problems
from agon.data.tabletop.worlds import READERS, WORLDS
from agon.engine.shipped import init_folders
from agon.engine.tiny.checkpoint import tiny_base
from agon.game.prompts import PROMPTS_HASH
from agon.types import Policy

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", WORLDS)
def test_a_base_was_made_by_the_recipe_of_its_world(name: str) -> None:
    world = WORLDS[name]
    folder = tiny_base(world.base)
    recipe = json.loads((folder / "tiny.json").read_text())
    today = {
        "seed": world.seed,
        "family": world.family,
        "difficulty": world.difficulty,
        "mixture": asdict(world.mixture),
    }
    assert json.loads(json.dumps(today)) == {key: recipe[key] for key in today}, "run scripts/make_tiny_base --world"
    assert recipe["schedule"]["steps"] == world.steps
    assert recipe["prompts"] == PROMPTS_HASH, f"the prompts changed: run scripts/make_tiny_base --world {name}"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 5_000_000


@pytest.mark.parametrize("name", WORLDS)
def test_a_config_names_the_base_and_starts_of_its_world(name: str) -> None:
    world = WORLDS[name]
    config = load_config(ROOT / "configs" / "tabletop" / "worlds" / f"{name}.yaml")
    assert config.model.name == f"agon:{world.base}"
    for source in (config.data.train, config.data.dev, config.data.held_out):
        assert source.options == {"family": world.family, "difficulty": world.difficulty}
    assert set(init_folders(config.model.init)) == (set(Policy) if world.taught else set())


def test_a_teacher_of_a_policy_makes_none_of_the_mistakes_that_it_was_taught_out_of() -> None:
    world = WORLDS["halves"]
    base, a = world.teacher(), world.teacher_of(Policy.A)
    assert set(a.own.wrong) < set(base.own.wrong)


@pytest.mark.parametrize("name", READERS)
def test_readers_were_taught_by_their_recipe(name: str) -> None:
    recipe = json.loads((tiny_base(name) / "lessons.json").read_text())
    today = json.loads(json.dumps(asdict(READERS[name])))
    assert today == {key: recipe[key] for key in today}, f"run scripts/make_tiny_base --world {name}"
    assert recipe["prompts"] == PROMPTS_HASH
    config = load_config(ROOT / "configs" / "tabletop" / "worlds" / f"{name}.yaml")
    assert config.model.name == recipe["base"] == "agon:tiny"
    assert set(init_folders(config.model.init)) == set(Policy)


def test_a_gullible_reader_adopts_wrong_values_and_the_others_do_not() -> None:
    (problem,) = problems("chain", 5, 1, seed=1)
    shown = [[1, 2, 3, 4]]
    own = WORLDS["neutral"].teacher().own
    for mixture, adopts in ((READERS["gullible"].mixture, True), (WORLDS["neutral"].mixture, False)):
        rng = random.Random(0)
        runs = [[step.first for step in solve(problem, own, mixture, rng, shown)[:4]] for _ in range(50)]
        assert (sum(values == shown[0] for values in runs) > 10) is adopts
