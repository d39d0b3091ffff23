"""The base of code that ships with the package: small, made for today's prompts by today's recipe."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from typing import Any

import pytest

from _lessons import PretrainSchedule
from agon.data.tabletop.code_lessons import CodeMixture, CodeWorld, recap, write
from agon.data.tabletop.code_templates import draw
from agon.engine.render import Renderer
from agon.engine.tiny.checkpoint import load_tokenizer, tiny_base
from agon.game.prompts import PROMPTS_HASH, challenge_prompt, draft_prompt

FOLDER = tiny_base("tiny-code")
RECIPE = json.loads((FOLDER / "tiny.json").read_text())
RNG = random.Random(0)
TASKS = [draw("any", RECIPE["difficulty"], RNG) for _ in range(40)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(FOLDER)


def test_it_has_a_few_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 5_000_000


def test_it_was_made_for_the_prompts_and_by_the_recipe_of_today() -> None:
    world = CodeWorld()
    today = {
        "seed": world.seed,
        "family": world.family,
        "difficulty": world.difficulty,
        "mixture": asdict(CodeMixture()),
        "schedule": asdict(PretrainSchedule(steps=world.steps)),
        "prompts": PROMPTS_HASH,
    }
    assert json.loads(json.dumps(today)) == {key: RECIPE[key] for key in today}, (
        "run scripts/make_tiny_base --world code, and evidence/tiny_code_base.py"
    )


def test_prompts_and_programs_are_short(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer)
    for task in TASKS:
        problem, lines = task.problem(()), task.solution[1:]
        assert len(renderer.render(draft_prompt(problem)).ids) <= 50
        assert len(renderer.render(challenge_prompt(problem, recap(lines[:-1]))).ids) <= 80
        assert len(tokenizer.encode(write(task, lines), add_special_tokens=False)) <= 72


def test_a_line_has_the_same_tokens_in_the_reasoning_and_in_the_program(tokenizer: Any) -> None:
    """So that a program is a copy, and a mistake is made once."""
    for task in TASKS:
        for line in task.solution[1:]:
            reasoned = tokenizer.encode(f"\na) {line}", add_special_tokens=False)
            written = tokenizer.encode(f"\n{line}", add_special_tokens=False)
            assert reasoned[1:] == written[1:], line
