"""Engines and verifiers on the nodes of a Ray cluster, beside a learner on this machine. docs/scale.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from agon.cluster.actor import Actor
from agon.config import Config, Model, SamplerConfig
from agon.config.rules import Rule
from agon.doors import door
from agon.engine.backend import OF_B, Backend, Values
from agon.engine.base import base_files, quieten
from agon.engine.devices import SPLIT
from agon.engine.protocol import Engine
from agon.engine.render import Renderer
from agon.engine.versions import KEPT
from agon.engine.vllm.door import local_engine
from agon.protocols import Learner, Sampler, Verifier
from agon.types import Policy
from agon_judge.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from agon.engine.vllm.canary import Canary


def _is_host_and_port(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and "/" not in host and port.isdecimal() and 0 < int(port) < 65536)


RULES = (
    Rule(
        ("cluster.address",),
        lambda address: address is not None,
        "belongs to cluster.engine ray, which needs it: write HOST:PORT, or local; RAY_ADDRESS is not read",
    ),
    Rule(
        ("cluster.address",),
        lambda address: address is None or address == "local" or _is_host_and_port(address),
        "is HOST:PORT, or local to start a cluster on this machine; auto would join whatever runs here",
    ),
    Rule(
        ("cluster.samplers", "sampler.engine"),
        lambda samplers, engine: not samplers or engine == "vllm",
        "only engine vllm runs on a cluster; write 0",
    ),
    Rule(
        ("cluster.samplers", "sampler.replicas", "sampler.urls"),
        lambda samplers, replicas, urls: not samplers or (replicas is None and not urls),
        "engines are on the cluster, on this machine or at sampler.urls; choose one",
    ),
    Rule(
        ("cluster.gpus", "sampler.options", "cluster.samplers"),
        lambda gpus, options, samplers: not samplers or gpus in (0, options.get(SPLIT, 1)),
        f"must equal {SPLIT} in sampler.options, which is 1 if you do not set it; 0 for nodes without GPUs",
    ),
    Rule(
        ("model.quantize", "cluster.samplers"),
        lambda quantize, samplers: quantize == "none" or not samplers,
        "must be none with engines on a cluster, where each node would quantise a base of its own: write "
        "cluster.samplers 0 for engines on this machine, or name servers in sampler.urls",
    ),
    Rule(
        ("cluster.verifiers", "verifier"),
        lambda verifiers, name: not verifiers or ":" not in name,
        "a function of yours judges on the learner's machine; write 0",
    ),
)


class Ray(Backend):
    """Whatever `sampler.engine` names, with its engines or the verifiers on nodes."""

    name = "ray"
    rules = RULES
    is_engine = False
    unused = OF_B
    all_draw = False
    fits_gpus = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._local: Backend = door("agon.backends", config.sampler.engine)(config)
        # of the engine beside it; what draws on nodes is drawn by one process
        self.trains_here = self._local.trains_here
        self.all_draw = self._local.all_draw and not config.cluster.samplers

    @classmethod
    def claims(cls, values: Values) -> bool:
        return bool(values["cluster"]["engine"] == cls.name)

    @classmethod
    def rules_for(cls, values: Values) -> tuple[Rule, ...]:
        return (*cls.rules, *door("agon.backends", values["sampler"]["engine"]).rules)

    def learner(self, steps: int) -> Learner:
        return self._local.learner(steps)

    def draws(self) -> bool:
        """Engines on nodes are drawn from by the first process of all."""
        return os.environ.get("RANK", "0") == "0" if self.config.cluster.samplers else self._local.draws()

    def sampler(self, context: int) -> Sampler:
        count, gpus = self.config.cluster.samplers, self.config.cluster.gpus
        if not count:
            return self._local.sampler(context)
        from agon.cluster.connection import connect
        from agon.engine.fleet import Fleet
        from agon.engine.vllm.host import AdapterStore, EngineHost, HostedEngine
        from agon.engine.vllm.sampler import VLLMSampler

        config, staleness = self.config, self.config.train.staleness
        cluster = connect(config.cluster.address, config.sampler.network)
        cluster.check_room(count + config.cluster.verifiers, count, gpus)
        settings = config.sampler.model_copy(update={"sleep": False})
        make = partial(_engine_here, config.model, settings, context, staleness)
        place, adapters = partial(cluster.place, EngineHost, make, gpus=gpus), AdapterStore(cluster)
        fleet = Fleet(*(HostedEngine(place, adapters) for _ in range(count)))
        return VLLMSampler(self.base, fleet, kept=KEPT + staleness)

    def verifier(self, sandbox: SandboxSettings) -> Verifier:
        if not self.config.cluster.verifiers:
            return self._local.verifier(sandbox)
        from agon.cluster.connection import connect
        from agon.verify.on_nodes import NodeVerifier, VerifierHost

        def place() -> Actor:
            cluster = connect(self.config.cluster.address, self.config.sampler.network)
            settings, right = self.config.sandbox.settings(), self.config.reward.right
            return cluster.place(VerifierHost, self.config.verifier, settings, right)

        return NodeVerifier(place, self.config.cluster.verifiers)

    def canary(self, sampler: Sampler, learner: Learner) -> Canary | None:
        return self._local.canary(sampler, learner)

    def renderers(self) -> dict[Policy, Renderer]:
        return self._local.renderers()

    @property
    def lost(self) -> Sequence[str]:
        return self._local.lost

    def engines(self) -> int | None:
        return self.config.cluster.samplers or self._local.engines()

    def contacts(self) -> dict[str, str]:
        return {"cluster.address": str(self.config.cluster.address), **self._local.contacts()}


def _engine_here(model: Model, settings: SamplerConfig, context: int, staleness: int) -> Engine:
    """On a node: an engine over the base as this node has it."""
    path = base_files(model)
    quieten(path)
    return local_engine(settings, model, path, context, staleness=staleness)
