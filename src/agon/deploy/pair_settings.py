"""How a pair answers: its settings, its system, and the base it was trained on, checked.

`Pair` and the gateway begin here, so that both answer as the pair was evaluated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from agon.config import Eval, Lora, Model, Train
from agon.config.arms import ARMS, resolve
from agon.config.bases import Dtype
from agon.config.rival import rival_of
from agon.engine.backend import Backend, default_engine, engines_here
from agon.engine.base import base_files, quieten
from agon.engine.render import Renderer
from agon.errors import InputError
from agon.eval.engines import check_template
from agon.eval.systems import SYSTEMS, headline
from agon.eval.target import check_pair
from agon.game.cascade import System
from agon.game.rules import Game
from agon.rundir import RunDir
from agon.rundir.adapter import check_adapter
from agon.rundir.pair import PairDir, PairInfo
from agon.types import Direction, Policy, Problem, Sampling, UnitTests, content_id


@dataclass(frozen=True, slots=True)
class Settings:
    """How a pair answers."""

    engine: str
    dtype: Dtype
    sampling: Sampling
    max_peek_tokens: int
    seed: int = 0
    code: bool = False
    show_code: bool = False


@dataclass(frozen=True, slots=True)
class PairBase:
    """The base of a pair, found to be the one that it was trained on."""

    model: Model
    path: str
    renderer: Renderer


def settings_of(
    path: Path, info: PairInfo, engine: str | None, temperature: float | None, max_tokens: int | None
) -> Settings:
    """The run's own where the path is a run, else the defaults of an evaluation."""
    if temperature is not None and not 0 <= temperature < math.inf:
        raise InputError(f"a temperature cannot be {temperature:g}", fix="name one of at least 0; 0 is greedy")
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"a stage cannot be capped at {max_tokens} tokens", fix="name a cap of at least 1")
    config = RunDir.open(path).config if (path / "config.yaml").is_file() else None
    measured = config.eval if config else Eval()
    if engine is None and config and config.sampler.engine == "hf":
        engine = "hf"  # as it was evaluated; vLLM would refuse its float32 on a GPU
    kind = _engine(engine) if engine else default_engine()
    return Settings(
        engine=kind.name,
        dtype=config.model.dtype if config else ("bfloat16" if kind.fits_gpus else "float32"),
        sampling=Sampling(
            measured.temperature if temperature is None else temperature,
            measured.top_p,
            max_tokens or measured.max_completion_tokens,
        ),
        max_peek_tokens=(config.train if config else Train()).max_peek_tokens,
        seed=config.train.seed if config else 0,
        code=info.code,
        show_code=info.show_code,
    )


def _engine(name: str) -> type[Backend]:
    here = {kind.name: kind for kind in engines_here()}
    if name not in here:
        raise InputError(f"no engine {name!r} opens a pair", fix=f"choose from: {', '.join(here)}")
    return here[name]


def problem_of(question: str, settings: Settings) -> Problem:
    """A question as the problem that an evaluation would ask: its seeds follow from its text."""
    return Problem(content_id(question), question, "", tests=UnitTests() if settings.code else None)


def system_of(folder: PairDir, direction: Direction | str | None) -> System:
    """Who answers: as the arm deploys; a direction that is named always makes a cascade."""
    if direction not in (None, *Direction):
        raise InputError(f"there is no direction {direction!r}", fix=f"write one of: {', '.join(Direction)}")
    arm = folder.info.arm
    if direction is None and arm is not None and arm in ARMS:
        deployed = headline(Game(**resolve(arm), rival=rival_of(folder.info.rival).rivalry))
        if deployed != "cascade":
            return SYSTEMS.get(deployed, Policy.A)  # of a pair of single passes, A
    chosen = Direction(direction or folder.info.direction or Direction.AB)
    return (chosen.drafter, chosen.challenger)


def checked_base(folder: PairDir, settings: Settings, *, weights: bool = True) -> PairBase:
    """The base of the pair; RunDirError if what is here is a different one.

    Checked are its weights or revision, the chat template and the prompts.
    """
    rank = max(check_adapter(folder.adapter(policy)).r for policy in Policy)
    info = folder.info
    model = Model(
        name=info.base,
        revision=info.base_revision,
        dtype=settings.dtype,
        quantize=info.quantize,
        lora=Lora(rank=rank),
    )
    check_pair(folder, model)
    path = base_files(model, weights=weights)
    quieten(path)
    renderer = Renderer.load(path)
    check_template(folder, renderer)
    return PairBase(model, path, renderer)
