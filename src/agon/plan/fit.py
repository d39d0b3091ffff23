"""Whether a config fits on a GPU, and which keys to change when it does not.

Learner and engine share a GPU, or have GPUs of their own. An engine that sleeps has released its memory while the
learner works, so each may take what the other leaves; one that does not sleep takes its share for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agon.config import Config
from agon.engine.backend import backend_of
from agon.engine.base import context_of
from agon.engine.base_config import read_base_config
from agon.engine.devices import SPLIT, learners_here
from agon.engine.dtypes import refusal
from agon.engine.vllm.placement import BESIDE, MARGIN, SEQUENCES, GpuMemory, placement_of
from agon.errors import EngineError
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.footprint import (
    CONTEXT,
    NCCL,
    EngineBytes,
    LearnerBytes,
    engine_bytes,
    layout_of,
    learner_bytes,
    longest_row,
    policies_of,
    sequence_bytes,
)
from agon.plan.gpus import GIB, Gpu

ROUND = 1024
LESS = 0.1
"""Share of an update's memory that must become free after it ran out of memory."""
SMALL_SHARE = 0.3
"""Of the GPU, for an engine that cannot sleep while the learner works."""
COMPOSITE = ("qwen3_5", "gemma4")
"""Kinds of bases that cannot be quantised."""
SMALL_ENGINE: dict[str, object] = {"max_num_seqs": 32, "max_num_batched_tokens": 2048}
"""Options of an engine with a small workspace and few CUDA graphs."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Memory of one GPU, by part, and what is wrong with it."""

    gpu: Gpu
    learner: LearnerBytes
    engine: EngineBytes | None
    """None for a server, which has GPUs of its own."""
    share: float
    """Of the GPU, for the engine."""
    sleeps: bool
    sequence: int
    """Cache of one sequence as long as the context."""
    most: int
    """Sequences that the engine draws at once, at most."""
    collectives: int = 0
    """What NCCL takes where several GPUs learn together."""
    apart: bool = False
    """Whether learner and engine have GPUs of their own."""
    alone: bool = False
    """Whether one learner is to share a base with others, of which there are none."""

    @property
    def taken(self) -> int:
        """What the engine takes while it draws."""
        return int(self.share * self.gpu.memory) if self.engine else 0

    @property
    def cache(self) -> int:
        """What its share leaves for keys and values."""
        return self.taken - CONTEXT - self.engine.static if self.engine else 0

    @property
    def left(self) -> int:
        """What the engine leaves to the learner while it updates."""
        own = self.gpu.memory - CONTEXT - self.collectives
        if self.engine is None or self.apart:
            return own
        return own - (CONTEXT + self.engine.graphs if self.sleeps else self.taken)

    def problems(self) -> list[str]:
        """What does not fit, one sentence each."""
        found = []
        if self.alone:
            found.append("train.shard is base, and there is one learner to split the base over")
        if self.spare < 0:
            found.append(f"an update needs {gib(self.learner.peak)}, and {gib(max(self.left, 0))} are left for it")
        if self.engine and self.cache < self.sequence:
            found.append(
                f"the engine needs {gib(self.engine.static + CONTEXT + self.sequence)} for weights and one sequence, "
                f"and its share is {gib(self.taken)}"
            )
        if self.held > self.gpu.memory:
            found.append(f"engine and learner hold {gib(self.held)} of {gib(self.gpu.memory)} while it draws")
        return found

    @property
    def held(self) -> int:
        """What engine and learner hold of a GPU that they share while the engine draws."""
        beside = self.learner.static + CONTEXT + self.collectives
        return self.taken + beside if self.engine and not self.apart else 0

    @property
    def short(self) -> int:
        """Bytes that the worst problem lacks; 0 where all fits."""
        cache = self.sequence - self.cache if self.engine else 0
        return max(-self.spare, cache, self.held - self.gpu.memory, int(self.alone))

    @property
    def spare(self) -> int:
        """What an update leaves free; negative where it does not fit."""
        return self.left - self.learner.peak

    def in_flight(self, bytes_each: int) -> int:
        """Completions that are drawn at once, each with so much cache."""
        return max(min(self.most, self.cache // bytes_each), 0)


def fit(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> Fit:
    """Lay a config out on the GPUs of one node, each with the same share of it."""
    layout = layout_of(config, gpus)
    learner = learner_bytes(shape, config.model, config.train, policies_of(config), layout.learners)
    engine = None if has_server(config) else engine_bytes(shape, config)
    collectives = NCCL if layout.learners > 1 else 0
    # when an engine starts, the optimizer's state does not exist yet
    left = GpuMemory(gpu.memory - learner.base - learner.adapters - CONTEXT - collectives, gpu.memory)
    awake = {"sleep": False} if config.train.staleness else {}  # it draws while the learner works
    placed = placement_of(config.sampler.model_copy(update=awake), None if layout.apart and engine else left)
    sequence = sequence_bytes(shape, config, context_of(config))
    most = int(config.sampler.options.get("max_num_seqs", SEQUENCES))
    sleeps = placed.sleeps and engine is not None
    alone = config.train.shard == "base" and layout.learners == 1
    return Fit(gpu, learner, engine, placed.memory, sleeps, sequence, most, collectives, layout.apart, alone)


def has_server(config: Config) -> bool:
    """Whether completions come from servers, on GPUs that are not the learner's."""
    return bool(config.sampler.urls)


def changes(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> list[str]:
    """The first list of `key=value` that makes a config fit; empty if none does."""
    for keys, candidate in _candidates(config):
        if not fit(candidate, shape, gpu, gpus).problems():
            return keys
    return []


def with_room(config: Config, shape: Shape, gpu: Gpu, gpus: int) -> tuple[Config, list[str], Fit]:
    """A config and how it fits, its engine's share lowered where gradients and Adam's state need more than an engine
    leaves free: they do not exist yet when it starts."""
    laid = fit(config, shape, gpu, gpus)
    share = int(100 * (1 - (laid.held - laid.taken + MARGIN // 2) / gpu.memory)) / 100
    if laid.held <= gpu.memory or config.sampler.gpu_memory_utilization is not None or share <= 0:
        return config, [], laid
    smaller = with_value(config, "sampler.gpu_memory_utilization", share)
    return smaller, [f"sampler.gpu_memory_utilization={share}"], fit(smaller, shape, gpu, gpus)


def in_four_bits(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> list[str]:
    """The `key=value` with which the base fits in 4 bits, in learner and engine, with shorter rows if it must be; empty
    if it does not."""
    whole = {key: value for key, value in config.sampler.options.items() if key != SPLIT}  # its loader cannot split
    options = {**whole, **SMALL_ENGINE, "quantization": "bitsandbytes"}
    if (
        config.model.dtype != "bfloat16"
        or shape.kind in COMPOSITE
        or config.cluster.engine != "none"
        or has_server(config)
    ):
        return []
    keys = ["model.quantize=nf4", f"sampler.options={written(options)}"]
    smaller = with_value(with_value(config, "model.quantize", "nf4"), "sampler.options", options)
    if config.train.shard != "none":
        smaller = with_value(smaller, "train.shard", "none")
        keys.append("train.shard=none")
    _, more, laid = with_room(smaller, shape, gpu, gpus)
    if not laid.problems():
        return [*keys, *more]
    shorter = changes(smaller, shape, gpu, gpus)
    return [*keys, *shorter] if shorter else []


def dtype_refusal(config: Config, gpu: Gpu) -> EngineError | None:
    """Why a GPU cannot work in the config's dtype, if it cannot."""
    if gpu.capability is None:
        return None
    error = refusal(config.model.dtype, gpu.name, gpu.capability, draws=not has_server(config))
    options = config.sampler.options
    if error and "quantization" in options and "model.dtype=" in error.fix:  # its loader has no other dtype
        plain = {key: value for key, value in options.items() if key != "quantization"}
        return EngineError(error.message, fix=f"set model.dtype=float16 'sampler.options={written(plain)}'")
    return error


def less_memory(config: Config, memory: int) -> list[str]:
    """The first list of `key=value` that leaves an update more of a device's memory, for a run that ran out of it.

    How much it lacked is not known, and it may fit by this plan: so what is free must grow, whatever it was.
    """
    gpu = Gpu("the GPU of this run", memory / GIB, None, None, "what it reports")
    shapes = [shape_of(read_base_config(model)) for model in config.model.each.values()]
    shape = max(shapes, key=lambda shape: shape.parameters)
    before = fit(config, shape, gpu, learners_here())
    for keys, candidate in _candidates(config):
        after = fit(candidate, shape, gpu, learners_here())
        if after.spare >= before.spare + LESS * before.learner.peak and not after.problems():
            return keys
    return []


def _candidates(config: Config) -> Iterator[tuple[list[str], Config]]:
    """Configs that need less, the least change first: what costs time, then what changes the run."""
    keys: list[str] = []
    for key, value in _cheaper(config):
        config = with_value(config, key, value)
        keys.append(f"{key}={written(value)}")
        yield keys, config
    keys = [key for key in keys if "tokens_per_pass" not in key]
    while (cap := config.train.max_completion_tokens - ROUND) >= ROUND:
        shorter = dict.fromkeys(("train.max_completion_tokens", "eval.max_completion_tokens"), cap)
        shorter["train.tokens_per_pass"] = cap + config.train.max_peek_tokens
        for key, value in shorter.items():
            config = with_value(config, key, value)
        yield [*keys, *(f"{key}={value}" for key, value in shorter.items())], config


def _cheaper(config: Config) -> Iterator[tuple[str, object]]:
    """Changes that cost time, and then precision."""
    ahead, share = config.train.staleness, config.sampler.gpu_memory_utilization
    if config.sampler.sleep is False and not has_server(config) and not ahead:
        yield "sampler.sleep", True
    if share is not None and not ahead:
        yield "sampler.gpu_memory_utilization", None
    if ahead and not has_server(config) and (share or BESIDE) > SMALL_SHARE:
        yield "sampler.gpu_memory_utilization", SMALL_SHARE
    if not config.train.gradient_checkpointing:
        yield "train.gradient_checkpointing", True
    if config.train.tokens_per_pass > longest_row(config.train):
        yield "train.tokens_per_pass", longest_row(config.train)
    if config.model.dtype == "float32":
        yield "model.dtype", "bfloat16"
    options = config.sampler.options
    if backend_of(config).fits_gpus and not has_server(config) and not options.keys() & SMALL_ENGINE.keys():
        yield "sampler.options", {**options, **SMALL_ENGINE}


def with_value(config: Config, key: str, value: object) -> Config:
    """The config with one key of a section changed."""
    section, field = key.split(".")
    return config.model_copy(update={section: getattr(config, section).model_copy(update={field: value})})


def written(value: object) -> str:
    """A value as an override on the command line writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(inner)}" for key, inner in value.items()) + "}"
    return str(value).replace("None", "null").replace("True", "true").replace("False", "false")


def gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"
