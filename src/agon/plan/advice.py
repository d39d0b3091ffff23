"""What to change, as keys that can be typed: layouts of several GPUs, what makes a config fit, what saves time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agon.config import Config
from agon.engine.devices import SPLIT, gpus_per_engine
from agon.engine.dtypes import refusal
from agon.engine.published import RECIPES, TEXT
from agon.engine.vllm.placement import BESIDE
from agon.errors import ConfigError, EngineError
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.gpus import GPUS, Gpu
from agon.plan.memory import fit, longest_row

ROUND = 1024
"""Tokens by which a cap is lowered at a time."""
SHORTER = 8192
"""Cap on completions that is tried as a cheaper run."""
SMALL_SHARE, HALF = 0.3, 0.5
"""Of the GPU, for an engine that cannot sleep while the learner works, and for one beside large adapters."""
COMPOSITE = ("qwen3_5", "gemma4")
"""Kinds of bases that cannot be quantised."""
SMALL_ENGINE: dict[str, object] = {"max_num_seqs": 32, "max_num_batched_tokens": 2048}
"""Options of an engine with a small workspace and few CUDA graphs."""
FP8_CACHE = (9, 10)
"""Generations (Hopper, and Blackwell of data centres) on which vLLM's flash attention reads an fp8 cache; on others it
is another kernel, which nobody here has tried."""
Changed = tuple[dict[str, object], Config]
"""Values by key, and the config with them."""


def layouts(config: Config, gpus: int) -> Iterator[Changed]:
    """The config in each layout of a node, its own first: engines on all GPUs, sharing with the learner, or on those
    that the learner leaves, where they may play a step ahead of it."""
    yield {}, config
    if gpus == 1 or config.sampler.urls:
        return
    parallel, own = gpus_per_engine(config.sampler), config.train.staleness
    plays_ahead = config.sampler.sleep is not True and config.train.importance != "none"
    for learners in [n for n in (1, 2, 4, 8) if n <= gpus]:
        for engines in {gpus // parallel, (gpus - learners) // parallel} - {0}:
            apart = learners + engines * parallel <= gpus
            for ahead in {own, 1} if apart and plays_ahead else {own}:
                keys: dict[str, object] = {
                    "train.gpus": learners,
                    "sampler.replicas": engines,
                    "train.staleness": ahead,
                }
                if changed := {key: value for key, value in keys.items() if _value(config, key) != value}:
                    yield changed, with_values(config, changed)


def ways_to_fit(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> str:
    """What makes a config fit, the least change first: a layout, what costs time, what changes the run; then 4 bits,
    another base or a larger GPU."""
    if keys := fitting(config, shape, gpu, gpus):
        return f"set {written(keys)}"
    ways = []
    if keys := in_four_bits(config, shape, gpu, gpus):
        ways.append(f"set {written(keys)}")
    bases = {name: shape_of(published) for name, published in (TEXT | RECIPES).items()}
    smaller = [(base.parameters, name) for name, base in bases.items() if _holds(config, base, gpu)]
    ways += [f"set model.name={max(smaller)[1]}"] if smaller else []
    larger = [
        (it.gib, name) for name, it in GPUS.items() if not dtype_refusal(config, it) and _holds(config, shape, it)
    ]
    ways += [f"use a larger GPU: --gpu {min(larger)[1]}"] if larger else []
    return ", or ".join(ways) or "set model.name to a smaller base"


def fitting(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> dict[str, object]:
    """The first keys with which a config fits; none where nothing helps. Samples stay as old as they are."""
    same = [each for each in layouts(config, gpus) if each[1].train.staleness == config.train.staleness]
    keys, closest = min(same, key=lambda each: fit(each[1], shape, gpu, gpus).short)
    for more in _candidates(closest):
        if not fit(with_values(closest, more), shape, gpu, gpus).problems():
            return {**keys, **more}
    return {}


def _candidates(config: Config) -> Iterator[dict[str, object]]:
    """Keys with which a config needs less, the least change first: what costs time, then what changes the run."""
    sampler, train, own_engine = config.sampler, config.train, not config.sampler.urls
    ahead, share, longest = train.staleness, sampler.gpu_memory_utilization, longest_row(config.train)
    cheaper = (
        ("sampler.sleep", True, own_engine and sampler.sleep is False and not ahead),
        ("sampler.gpu_memory_utilization", None, share is not None and not ahead),
        ("sampler.gpu_memory_utilization", SMALL_SHARE, own_engine and ahead and (share or BESIDE) > SMALL_SHARE),
        ("train.gradient_checkpointing", True, not train.gradient_checkpointing),
        ("train.tokens_per_pass", longest, train.tokens_per_pass > longest),
        ("model.dtype", "bfloat16", config.model.dtype == "float32"),
        (
            "sampler.options",
            {**sampler.options, **SMALL_ENGINE},
            own_engine and not sampler.options.keys() & SMALL_ENGINE,
        ),
    )
    keys: dict[str, object] = {}
    yield keys
    for key, value, applies in cheaper:
        if applies:
            keys = {**keys, key: value}
            yield keys
    if own_engine and not ahead:
        yield {**keys, "sampler.gpu_memory_utilization": HALF}
    for cap in range(train.max_completion_tokens - ROUND, ROUND - 1, -ROUND):
        shorter = dict.fromkeys(("train.max_completion_tokens", "eval.max_completion_tokens"), cap)
        yield {**keys, **shorter, "train.tokens_per_pass": cap + train.max_peek_tokens}


def in_four_bits(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> dict[str, object]:
    """The keys with which the base fits in 4 bits, in learner and engine, with shorter rows if it must be."""
    if config.model.dtype != "bfloat16" or shape.kind in COMPOSITE or config.sampler.urls:
        return {}
    whole = {key: value for key, value in config.sampler.options.items() if key != SPLIT}  # its loader cannot split
    options = {**whole, **SMALL_ENGINE, "quantization": "bitsandbytes"}
    keys: dict[str, object] = {"model.quantize": "nf4", "sampler.options": options}
    smaller = with_values(config, keys)
    if not fit(smaller, shape, gpu, gpus).problems():
        return keys
    more = fitting(smaller, shape, gpu, gpus)
    return {**keys, **more} if more else {}


def dtype_refusal(config: Config, gpu: Gpu) -> EngineError | None:
    """Why a GPU cannot work in the config's dtype, if it cannot."""
    if gpu.capability is None:
        return None
    error = refusal(config.model.dtype, gpu.name, gpu.capability, draws=not config.sampler.urls)
    options = config.sampler.options
    if error and "quantization" in options and "model.dtype=" in error.fix:  # its loader has no other dtype
        plain = {key: value for key, value in options.items() if key != "quantization"}
        return EngineError(error.message, fix=f"set {written({'model.dtype': 'float16', 'sampler.options': plain})}")
    return error


def cheaper_runs(config: Config, gpu: Gpu) -> Iterator[dict[str, object]]:
    """Keys that may save time; the last are a smaller experiment."""
    served = gpu.capability and gpu.capability[0] in FP8_CACHE and not config.sampler.urls
    if served and "kv_cache_dtype" not in config.sampler.options:
        yield {"sampler.options.kv_cache_dtype": "fp8"}
    if config.train.max_completion_tokens > SHORTER:
        yield {"train.max_completion_tokens": SHORTER, "eval.max_completion_tokens": SHORTER}


def _holds(config: Config, shape: Shape, gpu: Gpu) -> bool:
    """Whether a GPU holds a config over a base, which may have no layers of these names."""
    try:
        return not fit(config, shape, gpu).problems() and (
            config.model.quantize == "none" or shape.kind not in COMPOSITE
        )
    except ConfigError:
        return False


def with_values(config: Config, keys: Mapping[str, object]) -> Config:
    """The config with some keys of its sections changed, or of `sampler.options`."""
    for key, value in keys.items():
        section, field, *option = key.split(".")
        now = getattr(config, section)
        made = {**getattr(now, field), option[0]: value} if option else value
        config = config.model_copy(update={section: now.model_copy(update={field: made})})
    return config


def _value(config: Config, key: str) -> object:
    section, field = key.split(".")
    return getattr(getattr(config, section), field, 1)


def written(keys: Mapping[str, object]) -> str:
    """Overrides as a shell takes them."""
    words = [f"{key}={_plain(value)}" for key, value in keys.items()]
    return " ".join(f"'{word}'" if " " in word else word for word in words)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(inner)}" for key, inner in value.items()) + "}"
    return str(value).replace("None", "null").replace("True", "true").replace("False", "false")
