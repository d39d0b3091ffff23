"""Engine vllm: engines on the GPUs of this machine, or at servers that somebody started, beside TRL's learner."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agon.config import Config, Model, SamplerConfig
from agon.config.rules import Rule
from agon.engine.backend import Backend
from agon.engine.base_config import read_base_config
from agon.engine.devices import (
    SPLIT,
    check_split,
    engine_devices,
    gpus_per_engine,
    heads_in,
    visible_devices,
)
from agon.engine.dtypes import check_gpus
from agon.engine.versions import KEPT
from agon.engine.vllm.placement import GpuMemory, Placement, placement_of
from agon.errors import EngineError, install
from agon.protocols import Learner, Sampler

if TYPE_CHECKING:
    from agon.engine.vllm.canary import Canary
    from agon.engine.vllm.local import LocalEngine

OPTIONS = (
    "async_scheduling",
    "attention_backend",
    "block_size",
    "cpu_offload_gb",
    "disable_cascade_attn",
    "enable_chunked_prefill",
    "enforce_eager",
    "kv_cache_dtype",
    "max_num_batched_tokens",
    "max_num_seqs",
    "num_gpu_blocks_override",
    "performance_mode",
    "pipeline_parallel_size",
    "quantization",
    SPLIT,
)
"""What `sampler.options` may name. vLLM has others that load code, files or a different model."""
LOADER, PLUGIN = "bitsandbytes", "vllm_bnb_plugin"
"""How vLLM calls 4-bit checkpoints, and the package that loads them."""

RULES = (
    Rule(
        ("sampler.replicas", "sampler.urls"),
        lambda replicas, urls: replicas is None or not urls,
        "a run starts engines or samples from sampler.urls; remove one of the two",
    ),
    Rule(
        ("sampler.options",),
        lambda options: set(options) <= set(OPTIONS),
        f"may hold these arguments of vLLM: {', '.join(OPTIONS)}",
    ),
    Rule(
        ("sampler.options", "model.quantize", "model.dtype"),
        lambda options, quantize, dtype: (
            "quantization" not in options or (options["quantization"], quantize, dtype) == (LOADER, "nf4", "bfloat16")
        ),
        f"quantization may be {LOADER}, with model.quantize nf4 and model.dtype bfloat16; leave it out otherwise: a "
        "different quantisation than the learner's is a different base",
    ),
    Rule(
        ("sampler.options", "sampler.urls"),
        lambda options, urls: not options or not urls,
        "are arguments of an engine that the run starts; give them to your servers, or leave out sampler.urls",
    ),
    Rule(
        ("sampler.options",),
        lambda options: type(options.get(SPLIT, 1)) is int and options.get(SPLIT, 1) >= 1,
        f"{SPLIT} is how many GPUs each engine is split over: a whole number, 1 or more",
    ),
    Rule(
        ("sampler.options",),
        lambda options: options.get("pipeline_parallel_size", 1) == 1,
        f"pipeline_parallel_size must be 1; {SPLIT} splits a base over GPUs of one machine",
    ),
    Rule(
        ("sampler.options",),
        lambda options: "quantization" not in options or options.get(SPLIT, 1) == 1,
        f"{LOADER} cannot split a base over GPUs; leave out quantization (engines then serve the same weights "
        f"dequantised) or {SPLIT}",
    ),
    Rule(
        ("sampler.max_loras", "game.opponent"),
        lambda loras, opponent: loras >= 2 or opponent != "rival",
        "must be at least 2: both policies are live at once",
    ),
    Rule(
        ("train.staleness", "sampler.sleep"),
        lambda steps, sleep: not steps or sleep is not True,
        "plays while the learner computes, and an engine that sleeps then cannot: write sampler.sleep false",
    ),
)


class Vllm(Backend):
    """vLLM draws, TRL learns."""

    name = "vllm"
    rules = RULES
    fits_gpus = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._beside: GpuMemory | None = None

    @classmethod
    def open_sampler(
        cls,
        settings: SamplerConfig,
        model: Model,
        path: str,
        context: int,
        *,
        staleness: int = 0,
        beside: GpuMemory | None = None,
        gpus: int = 1,
    ) -> Sampler:
        """`beside`: what a learner leaves free on each of the first `gpus` GPUs of this machine."""
        from agon.engine.fleet import Fleet
        from agon.engine.vllm.host import in_own_process
        from agon.engine.vllm.sampler import VLLMSampler
        from agon.engine.vllm.server import ServerEngine

        if settings.urls:
            servers = Fleet(*(ServerEngine(url, network=settings.network) for url in settings.urls))
            return VLLMSampler(path, servers, kept=KEPT + staleness)
        check_gpus(model.dtype, draws=True)
        check_loader(settings)
        devices, each = visible_devices(), gpus_per_engine(settings)
        usual = 1 if beside else len(devices) // each  # engines; without a learner, one on every GPU
        chosen = engine_devices(settings.replicas or max(usual, 1), devices, each)
        learning = set(devices[:gpus])
        places = [placement_of(settings, beside if learning & set(group) else None) for group in chosen]
        engines = [
            in_own_process(
                partial(local_engine, settings, model, path, context, place, staleness), ",".join(group) or None
            )
            for group, place in zip(chosen, places, strict=True)
        ]
        sleeps = any(place.sleeps for place in places)
        return VLLMSampler(path, Fleet(*engines), sleeps=sleeps, kept=KEPT + staleness)

    def learner(self, steps: int) -> Learner:
        check_gpus(self.config.model.dtype, draws=not self.config.sampler.urls)
        check_loader(self.config.sampler)
        if (each := gpus_per_engine(self.config.sampler)) > 1:
            check_split(each, heads_in(read_base_config(self.config.model)), self.config.model.name)
        learner = super().learner(steps)
        self._beside = GpuMemory.here()
        return learner

    def sampler(self, context: int) -> Sampler:
        """Where steps are played ahead, no engine sleeps."""
        settings, staleness = self.config.sampler, self.config.train.staleness
        if staleness:
            settings = settings.model_copy(update={"sleep": False})
        return self.open_sampler(
            settings,
            self.config.model,
            self.base,
            context,
            staleness=staleness,
            beside=self._beside,
            gpus=self.config.train.gpus,
        )

    def canary(self, sampler: Sampler, learner: Learner) -> Canary | None:
        from agon.engine.vllm.canary import Canary
        from agon.engine.vllm.sampler import VLLMSampler

        assert isinstance(sampler, VLLMSampler)
        settings = self.config.sampler
        return Canary(
            sampler,
            learner,
            settings.max_loras,
            mode=settings.canary,
            limit=settings.canary_limit,
            temperature=self.config.train.temperature,
            dtype=self.config.model.dtype,
            served=self.base if self.config.model.quantize != "none" else "model.name",
        )

    def engines(self) -> int | None:
        return len(self.config.sampler.urls) or self.config.sampler.replicas

    def contacts(self) -> dict[str, str]:
        return {"sampler.urls": f"[{','.join(self.config.sampler.urls)}]"} if self.config.sampler.urls else {}


def check_loader(settings: SamplerConfig) -> None:
    """Refuse 4-bit checkpoints where vLLM cannot load them, before an engine starts."""
    if "quantization" in settings.options and find_spec(PLUGIN) is None:
        raise EngineError(
            "vLLM loads 4-bit checkpoints with a plugin, which is not installed",
            fix=f"{install('nf4-vllm')}, or leave out sampler.options.quantization: engines then serve the same "
            "weights dequantised",
        )


def local_engine(
    settings: SamplerConfig,
    model: Model,
    path: str,
    context: int,
    place: Placement | None = None,
    staleness: int = 0,
) -> LocalEngine:
    """An engine in this process; by default alone on the GPUs that the process sees."""
    from agon.engine.vllm.local import CACHED, LocalEngine

    place = place or placement_of(settings, None)
    if "quantization" in settings.options:
        from agon.engine.quantize import NF4, quantised_files

        path = str(quantised_files(model) / NF4)
    return LocalEngine(
        path,
        dtype=model.dtype,
        context=context,
        rank=model.lora.rank,
        max_loras=settings.max_loras,
        cached=CACHED + 2 * staleness,
        memory=place.memory,
        sleeps=place.sleeps,
        options=settings.options,
    )
