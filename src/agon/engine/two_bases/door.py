"""A pair over two bases: A and B each on their own, drawn and trained in one process. docs/rivals.md."""

from __future__ import annotations

from agon.config.rules import Rule
from agon.doors import door
from agon.engine.backend import OF_ENGINES, ON_CLUSTER, Backend, Values, trl_learner
from agon.engine.base import base_files
from agon.engine.render import Renderer
from agon.engine.two_bases.sampler import TwoBaseSampler
from agon.protocols import Learner, Sampler
from agon.types import Policy

RULES = (
    Rule(
        ("model.b.name", "sampler.engine"),
        lambda name, engine: engine == "hf",
        "two bases train with sampler.engine hf alone: neither the canary of vllm nor tinker knows a second base yet",
    ),
    Rule(
        ("model.b.name", "game.opponent"),
        lambda name, opponent: opponent == "rival",
        "is for arms with a rival, such as agon or coop; this one trains A alone: leave it out",
    ),
    Rule(
        ("model.b.name", "rival.kind"),
        lambda name, kind: door("agon.rivals", kind).rivalry != "leaves",
        "is the base of policy B, and with this rival no policy B plays: leave it out",
    ),
    Rule(("model.b.name", "model.name"), lambda name, base: name != base, "is A's base already: leave it out"),
    Rule(
        ("model.quantize",),
        lambda quantize: quantize == "none",
        "must be none with two bases: leave out model.quantize or model.b",
    ),
    Rule(
        ("train.shard",),
        lambda shard: shard == "none",
        "must be none with two bases, which train in one process: leave out train.shard or model.b",
    ),
    Rule(
        ("train.staleness",),
        lambda steps: not steps,
        "must be 0 with two bases: leave out train.staleness or model.b",
    ),
)


class TwoBases(Backend):
    """A learner, a sampler and a renderer for each policy."""

    name = "two-bases"
    rules = RULES
    is_engine = False
    batches_by_arrival = True
    unused = {**OF_ENGINES, **ON_CLUSTER}

    @classmethod
    def claims(cls, values: Values) -> bool:
        return values["model"]["b"]["name"] is not None

    def learner(self, steps: int) -> Learner:
        from agon.engine.two_bases.learner import TwoBaseLearner

        each = self.config.model.each.items()
        return TwoBaseLearner({p: trl_learner(self.config, model, base_files(model), steps) for p, model in each})

    def sampler(self, context: int) -> Sampler:
        """One of the named engine for each base."""
        engine, settings = door("agon.backends", self.config.sampler.engine), self.config.sampler
        each = self.config.model.each.items()
        return TwoBaseSampler({p: engine.open_sampler(settings, m, base_files(m), context) for p, m in each})

    def renderers(self) -> dict[Policy, Renderer]:
        return {policy: Renderer.load(base_files(model)) for policy, model in self.config.model.each.items()}
