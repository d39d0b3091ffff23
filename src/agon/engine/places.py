"""Where the sampler and the verifier of a run stand: on this machine, at servers, or on the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agon.cluster.actor import Actor
from agon.config import Config, Model, SamplerConfig
from agon.engine.build import base_files, build_sampler, local_engine, quieten
from agon.engine.protocol import Engine
from agon.engine.two_bases import TwoBaseSampler
from agon.engine.versions import KEPT
from agon.engine.vllm.placement import GpuMemory
from agon.protocols import Sampler, Verifier
from agon.verify import load_verifier
from agon_judge.sandbox.settings import SandboxSettings


def sampler_for(config: Config, path: str, context: int, beside: Sequence[GpuMemory] = ()) -> Sampler:
    """The sampler that a config names, with room for sequences of `context` tokens; `path` is the base here.

    `beside` is the memory of the learners' GPUs on this machine. Where steps are played ahead, none sleeps.
    """
    staleness = config.train.staleness
    settings = config.sampler.model_copy(update={"sleep": False}) if staleness else config.sampler
    if config.cluster.engine == "none" or not config.cluster.samplers:
        return build_sampler(settings, config.model, path, context, beside=beside, staleness=staleness)
    from agon.cluster.connection import connect
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.on_node import AdapterStore, NodeEngine
    from agon.engine.vllm.sampler import VLLMSampler

    count, gpus = config.cluster.samplers, config.cluster.gpus
    cluster = connect(config.cluster.address, config.sampler.network)
    cluster.check_room(count + config.cluster.verifiers, count * gpus)
    make = partial(_engine_here, config.model, settings.model_copy(update={"sleep": False}), context, staleness)
    adapters = AdapterStore(cluster)
    fleet = Fleet(*(NodeEngine(cluster, make, adapters, gpus) for _ in range(count)))
    return VLLMSampler(path, fleet, kept=KEPT + staleness)


def samplers_for(config: Config, context: int) -> Sampler:
    """The sampler of a config that names two bases: one engine for each."""
    each = config.model.each.items()
    return TwoBaseSampler({p: build_sampler(config.sampler, model, base_files(model), context) for p, model in each})


def verifier_for(config: Config, sandbox: SandboxSettings) -> Verifier:
    """The verifier that a config names; `sandbox` is that of this process, where it is here."""
    if not config.cluster.verifiers:
        return load_verifier(config.verifier, sandbox=sandbox)
    from agon.cluster.connection import connect
    from agon.verify.on_nodes import NodeVerifier, VerifierHost

    def place() -> Actor:
        cluster = connect(config.cluster.address, config.sampler.network)
        return cluster.place(VerifierHost, config.verifier, config.sandbox.settings())

    return NodeVerifier(place, config.cluster.verifiers)


def _engine_here(model: Model, settings: SamplerConfig, context: int, staleness: int) -> Engine:
    """On a node: an engine over the base as this node has it."""
    path = base_files(model)
    quieten(path)
    return local_engine(settings, model, path, context, staleness=staleness)
