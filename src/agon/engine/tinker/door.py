"""Engine tinker: draws and learns on a Tinker service, the hosted one or one of yours. docs/tinker.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agon.config import Config
from agon.config.rules import Rule
from agon.engine.backend import OF_ENGINES, Backend
from agon.engine.base import base_files
from agon.engine.base_config import base_path
from agon.engine.render import Renderer
from agon.errors import ConfigError
from agon.protocols import Learner, Sampler
from agon.types import seed_for

if TYPE_CHECKING:
    from agon.engine.tinker.capabilities import Capabilities
    from agon.engine.tinker.client import TinkerClient

RULES = (
    Rule(
        ("sampler.urls",),
        lambda urls: len(urls) <= 1,
        "engine tinker trains on one server",
    ),
    Rule(
        ("train.staleness",),
        lambda steps: not steps,
        "must be 0 with engine tinker: the loss on a service has no clipped ratio of ours",
    ),
    Rule(("train.beta",), lambda beta: beta == 0, "must be 0 with engine tinker: a service holds no reference"),
    Rule(
        ("train.temperature",),
        lambda temperature: temperature == 1,
        "must be 1 with engine tinker: log-probs are those of temperature 1, whatever was drawn",
    ),
    Rule(
        ("train.importance",),
        lambda importance: importance == "token_truncate",
        "must be token_truncate with engine tinker: the loss always corrects",
    ),
    Rule(
        ("model.quantize",),
        lambda quantize: quantize == "none",
        "must be none with engine tinker: the service holds the base; leave it out",
    ),
    Rule(
        ("train.gpus",),
        lambda gpus: gpus == 1,
        "must be 1 with engine tinker: the service computes gradients",
    ),
    Rule(
        ("model.lora.targets",),
        lambda targets: targets == "all-linear",
        "must be all-linear with engine tinker: the service chooses the layers",
    ),
    Rule(
        ("model.lora.layers",),
        lambda layers: layers is None,
        "must be null with engine tinker: the service chooses the layers",
    ),
    Rule(("model.init.a",), lambda init: init == "zero", "must be zero with engine tinker: weights cannot be uploaded"),
    Rule(
        ("model.init.b",), lambda init: init == "noise", "must be noise with engine tinker: weights cannot be uploaded"
    ),
)


class Tinker(Backend):
    """Sampler and learner on one service; only the tokenizer is loaded here."""

    name = "tinker"
    rules = RULES
    unused = {key: owner for key, owner in OF_ENGINES.items() if key != "sampler.urls"}
    trains_here = opens_here = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._client: TinkerClient | None = None
        self._renderer: Renderer | None = None
        self.capabilities: Capabilities | None = None

    def learner(self, steps: int) -> Learner:
        """Connect, measure what the service can do, and refuse what it cannot."""
        from agon.engine.tinker.capabilities import check_alpha, probe
        from agon.engine.tinker.client import TinkerClient
        from agon.engine.tinker.remote_learner import TinkerLearner

        config, base = self.config, base_path(self.config.model)
        renderer = self.renderer()
        self._client = client = TinkerClient(next(iter(config.sampler.urls), None))
        if base not in (bases := client.bases()):
            raise ConfigError(f"the service does not train {base}", fix=f"set model.name to one of: {', '.join(bases)}")
        rank, seed = config.model.lora.rank, seed_for(config.train.seed, "probe")
        self.capabilities = probe(client, base, rank, renderer.vocabulary, seed)
        check_alpha(config, self.capabilities)
        return TinkerLearner(
            client,
            base,
            config.model,
            config.train,
            self.capabilities.averaging,
            total_steps=steps,
            vocabulary=renderer.vocabulary,
        )

    def sampler(self, context: int) -> Sampler:
        from agon.engine.tinker.remote_sampler import TinkerSampler

        if self._client is None:
            raise ConfigError(
                "sampler.engine tinker cannot load adapters from disk",
                fix="add sampler.engine=vllm (or hf for a tiny model on a CPU) and sampler.urls=[]",
            )
        return TinkerSampler(self._client, base_path(self.config.model), self.renderer(), context)

    def renderer(self) -> Renderer:
        self._renderer = self._renderer or Renderer.load(base_files(self.config.model, weights=False))
        return self._renderer

    @property
    def lost(self) -> Sequence[str]:
        from agon.engine.tinker.capabilities import lost

        return lost(self.config, self.capabilities) if self.capabilities else ()

    def loss(self) -> Mapping[str, Any]:
        train = self.config.train
        return {"of the service": "importance_sampling", "loss": train.loss, "clip_norm": train.clip_norm}

    def contacts(self) -> dict[str, str]:
        urls = self.config.sampler.urls
        return {"sampler.urls": f"[{','.join(urls)}]"} if urls else {"sampler.engine": self.name}
