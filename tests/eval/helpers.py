"""A small evaluation without a model: scripted policies, a verifier that reads the tag, settings that are names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agon.engine.scripted import ScriptedSampler
from agon.eval.draw import Evaluator
from agon.eval.evaluation import Evaluation
from agon.eval.measures import from_outcomes
from agon.eval.systems import SYSTEMS
from agon.rundir.results import (
    EvalData,
    EvalResult,
    EvalSettings,
    Lengths,
    MeanLength,
    Outcomes,
    RunFacts,
    TokenCounts,
    TokenUse,
)
from agon.types import Policy, Request, Sampling, Version
from tests.game.helpers import by_seed, problems, read_tag

SETTINGS = EvalSettings(
    base="scripted",
    base_hash=None,
    revision=None,
    dtype="float32",
    versions={policy: Version.of(policy, 0, "scripted") for policy in Policy},
    engine="scripted",
    temperature=0.6,
    top_p=0.95,
    max_completion_tokens=100,
    max_peek_tokens=50,
    seed=0,
    verifier="math",
    prompts="p",
)
FACTS = RunFacts(name="scripted", arm="agon", seed=0)


def evaluation(folder: Path, *names: str, n: int = 4, samples: int = 1, **settings: object) -> Evaluation:
    """An evaluation of some systems on n problems, opened."""
    systems = {name: SYSTEMS[name] for name in names or ("ab", "ba", "a", "b")}
    made = Evaluation(folder, problems(n), systems, samples, SETTINGS.model_copy(update=settings), FACTS)
    made.open()
    return made


def evaluator(answer: Callable[[Request], str] = by_seed) -> Evaluator:
    return Evaluator(ScriptedSampler(answer), read_tag, Sampling(0.6, 0.95, 100), max_peek_tokens=50)


def requests(used: Evaluator) -> list[Request]:
    assert isinstance(used.sampler, ScriptedSampler)
    return [event.request for event in used.sampler.events if event.kind == "start"]


def draw(made: Evaluation, answer: Callable[[Request], str] = by_seed) -> int:
    """Draw what is missing; return how many completions that took."""
    used = evaluator(answer)
    asyncio.run(made.draw(used, lambda done, of: None))
    return len(requests(used))


def result_of(outcomes: Outcomes, arm: str = "agon", seed: int = 0, system: str = "cascade") -> EvalResult:
    """A result with these outcomes, and no tokens."""
    none = TokenCounts(generated=0, prefilled=0)
    tokens = TokenUse(draft=None, final=none, total=none, per_correct=None)
    length = Lengths(final={"all": MeanLength(n=0, mean=None)}, truncated=None, seconds=None)
    return EvalResult(
        system=system,
        done=len(outcomes),
        of=len(outcomes),
        run=RunFacts(name=f"{arm}-s{seed}", arm=arm, seed=seed),
        data=EvalData(name="held_out", problems=len(outcomes), samples=1),
        settings=SETTINGS,
        records=[f"{system}.jsonl"],
        measures=from_outcomes(outcomes, tokens=tokens, length=length),
    )
