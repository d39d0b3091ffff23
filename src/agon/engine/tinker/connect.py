"""From a config to the machines of a run on a Tinker service."""

from __future__ import annotations

import os
from dataclasses import dataclass

from agon.config import Config
from agon.engine.build import base_files, base_path, context_of
from agon.engine.render import Renderer
from agon.engine.tinker.capabilities import Capabilities, check_alpha, lost, probe, refuse
from agon.engine.tinker.client import TinkerClient
from agon.engine.tinker.remote_learner import TinkerLearner
from agon.engine.tinker.remote_sampler import TinkerSampler
from agon.errors import ConfigError
from agon.types import seed_for


@dataclass(frozen=True, slots=True)
class TinkerMachines:
    """Sampler and learner on one service, and what a run does without there."""

    learner: TinkerLearner
    sampler: TinkerSampler
    renderer: Renderer
    capabilities: Capabilities
    notes: tuple[str, ...]


def connect(config: Config, total_steps: int) -> TinkerMachines:
    """Connect, measure what the service can do, and refuse what it cannot. Only the tokenizer is loaded here."""
    refuse(config)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("sampler.engine tinker trains from one process", fix="start agon without torchrun")
    renderer = Renderer.load(base_files(config.model, weights=False))
    client, base = TinkerClient(next(iter(config.sampler.urls), None)), base_path(config.model)
    if base not in (bases := client.bases()):
        raise ConfigError(f"the service does not train {base}", fix=f"set model.name to one of: {', '.join(bases)}")
    rank, seed = config.model.lora.rank, seed_for(config.train.seed, "probe")
    capabilities = probe(client, base, rank, renderer.vocabulary, seed)
    check_alpha(config, capabilities)
    learner = TinkerLearner(
        client,
        base,
        config.model,
        config.train,
        capabilities.averaging,
        total_steps=total_steps,
        vocabulary=renderer.vocabulary,
    )
    sampler = TinkerSampler(client, base, renderer, context_of(config))
    return TinkerMachines(learner, sampler, renderer, capabilities, tuple(lost(config, capabilities)))
