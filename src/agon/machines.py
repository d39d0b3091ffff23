"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agon.config import Config, Model, SamplerConfig
from agon.engine.base import Learner, Sampler
from agon.engine.render import Renderer
from agon.errors import ConfigError

TINY = "agon:tiny"
"""The base that ships with the package."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Any
    renderer: Renderer

    def close(self) -> None:
        self.sampler.close()
        self.verify.close()


def base_path(model: Model) -> str:
    """Where transformers and vLLM find the base: a folder for our own, else the name itself."""
    if model.name != TINY:
        return model.name
    from agon.engine.tiny import tiny_base

    return str(tiny_base())


def build(config: Config, total_steps: int) -> Machines:
    """Everything a training run needs, loaded."""
    from agon.engine.trl import TRLLearner
    from agon.engine.trl_setup import load_base
    from agon.verify import load_verifier

    path = base_path(config.model)
    base = load_base(config.model.model_copy(update={"name": path}))
    learner = TRLLearner(config.model, config.train, total_steps=total_steps, base=base)
    sampler = build_sampler(config.sampler, config.model, path)
    return Machines(learner, sampler, load_verifier(config.verifier), Renderer.load(path))


def build_sampler(settings: SamplerConfig, model: Model, path: str) -> Sampler:
    """The sampler that a config names."""
    if settings.engine == "hf":
        from agon.engine.hf import HFSampler

        return HFSampler(path, dtype=model.dtype)
    raise ConfigError(
        f"sampler.engine {settings.engine} cannot draw completions for a training run",
        fix="write sampler.engine=hf for a tiny model on a CPU",
    )
