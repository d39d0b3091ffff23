"""A small evaluation without a model: scripted policies, a verifier that reads the tag, settings that are names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agon.engine.scripted import ScriptedSampler
from agon.eval.cascade import Table
from agon.eval.evaluate import Evaluation
from agon.eval.systems import SYSTEMS
from agon.types import Request, Sampling
from tests.game.world import by_seed, problems, read_tag

SETTINGS = {"base": "scripted", "versions": {"a": "a@000000-scripted", "b": "b@000000-scripted"}, "seed": 0}
FACTS = {"name": "scripted", "arm": "agon", "seed": 0}


def evaluation(folder: Path, *names: str, n: int = 4, samples: int = 1, **settings: object) -> Evaluation:
    """An evaluation of some systems on n problems, opened."""
    systems = {name: SYSTEMS[name] for name in names or ("ab", "ba", "a", "b")}
    made = Evaluation(folder, problems(n), systems, samples, SETTINGS | settings, FACTS)
    made.open()
    return made


def table(answer: Callable[[Request], str] = by_seed) -> Table:
    return Table(ScriptedSampler(answer), read_tag, Sampling(0.6, 0.95, 100), max_peek_tokens=50)


def hold(made: Evaluation, answer: Callable[[Request], str] = by_seed) -> int:
    """Hold what is missing; return how many completions that took."""
    at = table(answer)
    asyncio.run(made.hold(at, lambda done, of: None))
    return sum(event.kind == "start" for event in at.sampler.events)
