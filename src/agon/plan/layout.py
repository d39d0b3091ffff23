"""The layouts of a node that a plan tries: which GPUs learn, which draw, and how a base is split over them.

Either every GPU has a learner and an engine that sleeps while it learns, or engines have GPUs of their own and may play
a step ahead. An engine may be split over 2, 4 or 8 GPUs, and the learners' base over all of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agon.config import Config
from agon.engine.devices import can_split, gpus_per_engine
from agon.engine.published import RECIPES, TEXT
from agon.errors import ConfigError
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.fit import COMPOSITE, Fit, dtype_refusal, has_server, with_room, with_value, written
from agon.plan.footprint import layout_of, learners_of
from agon.plan.gpus import GPUS, Gpu, Node
from agon.plan.hours import step_seconds
from agon.plan.step_time import Assumptions, Speed

POWERS = (1, 2, 4, 8)
"""Learners that have GPUs of their own, and GPUs of an engine."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A config in one layout: how it fits, and the seconds of a step where that is known."""

    config: Config
    keys: tuple[str, ...]
    """`key=value` that it adds to the config that was asked for."""
    laid: Fit
    seconds: float


def choices(config: Config, shape: Shape, hardware: Node, assumed: Assumptions) -> list[Choice]:
    """Every layout, the fastest that fits first; those that do not fit come last, by the bytes that they lack."""
    found = list[Choice]()
    for tried, keys, laid in layouts(config, shape, hardware.gpu, hardware.gpus):
        if tried.train.shard == "base" and found and not found[-1].laid.problems():
            continue  # the same layout fits without; to split its base would cost time
        speed, fits = Speed.of(shape, tried, hardware.gpu, assumed), not laid.problems()
        seconds = step_seconds(tried, hardware, laid, speed).total if fits and speed else 0.0
        found.append(Choice(tried, keys, laid, seconds))
    return sorted(found, key=lambda choice: (choice.laid.short, choice.seconds))


def layouts(config: Config, shape: Shape, gpu: Gpu, gpus: int) -> Iterator[tuple[Config, tuple[str, ...], Fit]]:
    """The config in each layout, with the keys that differ; unchanged where servers, a cluster or two bases decide."""
    if gpus == 1 or has_server(config) or config.cluster.engine != "none" or config.model.two_bases:
        yield _changed(
            config, {"train.shard": "none"} if layout_of(config, gpus).learners == 1 else {}, shape, gpu, gpus
        )
        return
    plays_ahead = config.sampler.sleep is not True and config.train.importance != "none"
    own, in_four_bits = config.train.staleness, "quantization" in config.sampler.options
    for parallel in POWERS:
        # the loader of 4 bits cannot split a base
        if gpus % parallel or not can_split(parallel, shape.heads) or (parallel > 1 and in_four_bits):
            continue
        for learners in (gpus, *(n for n in POWERS if n < gpus and (gpus - n) % parallel == 0)):
            engines = None if learners == gpus else (gpus - learners) // parallel  # null: on all GPUs
            for ahead in sorted({0, 1, own} if learners < gpus and plays_ahead else {0, own}):
                for shard in ("none", "base") if learners > 1 and config.model.quantize == "none" else ("none",):
                    wanted = {
                        "sampler.options.tensor_parallel_size": parallel,
                        "sampler.replicas": engines,
                        "train.staleness": ahead,
                        "train.shard": shard,
                    }
                    yield _changed(config, wanted, shape, gpu, gpus)


def _changed(
    config: Config, wanted: Mapping[str, object], shape: Shape, gpu: Gpu, gpus: int
) -> tuple[Config, tuple[str, ...], Fit]:
    """The config in a layout, the keys that differ, and how it fits."""
    keys: list[str] = []
    for key, value in wanted.items():
        section, field, *option = key.split(".")
        now = getattr(getattr(config, section), field)
        if (now.get(option[0], 1) if option else now) != value:
            keys.append(f"{key}={written(value)}")
            config = with_value(config, f"{section}.{field}", {**now, option[0]: value} if option else value)
    config, more, laid = with_room(config, shape, gpu, gpus)
    return config, (*keys, *more), laid


def command(config: Config, gpus: int, words: Sequence[str], keys: Sequence[str]) -> str:
    """What to type: `words` are the config and overrides that the plan was asked about."""
    learners = learners_of(config, gpus)
    # one process that sees several GPUs would copy the model to all: the launcher gives a single learner the first
    start = ["torchrun", "--nproc-per-node", str(learners), "-m", "agon"] if gpus > 1 else ["agon"]
    if any(word.startswith("sampler.options=") for word in words) and any("sampler.options." in key for key in keys):
        # an option inside of options that were typed would be set twice
        keys = [key for key in keys if not key.startswith("sampler.options.")]
        keys.append(f"sampler.options={written(config.sampler.options)}")
    changed = {key.partition("=")[0] for key in keys}
    kept = [word for word in words if word.partition("=")[0] not in changed]
    if "sampler.options" in changed:
        kept = [word for word in kept if not word.startswith("sampler.options.")]
    return shlex.join([*start, "train", *kept, *keys])


def merged(first: Sequence[str], then: Sequence[str]) -> list[str]:
    """Keys of a layout and of changes after them, each named once: options written whole replace single ones."""
    keys = {key.partition("=")[0]: key for key in (*first, *then)}
    whole = "sampler.options" in keys
    return [key for name, key in keys.items() if not (whole and name.startswith("sampler.options."))]


def preferred(ranked: Sequence[Choice], staleness: int) -> Choice:
    """The fastest that fits, or the closest; if there is one, with the staleness of the config."""
    same = [choice for choice in ranked if choice.config.train.staleness == staleness]
    return next((choice for choice in (*same, *ranked) if not choice.laid.short), (same or ranked)[0])


def other_base(config: Config, gpu: Gpu, gpus: int = 1) -> str | None:
    """The largest base that we know by name and that fits in some layout, all else unchanged."""
    fitting = []
    for name, published in (TEXT | RECIPES).items():
        shape, smaller = shape_of(published), with_value(config, "model.name", name)
        if _serves(config, shape) and fits_somewhere(smaller, shape, gpu, gpus):
            fitting.append((shape.parameters, name))
    return max(fitting)[1] if fitting else None


def _serves(config: Config, shape: Shape) -> bool:
    """Whether a config's adapters, bits and layout are possible over a base."""
    try:
        shape.adapted(config.model.lora)
    except ConfigError:
        return False
    split = can_split(gpus_per_engine(config.sampler), shape.heads)
    return split and (config.model.quantize == "none" or shape.kind not in COMPOSITE)


def smallest(config: Config, shape: Shape, gpus: int = 1) -> str | None:
    """The name of the smallest GPU in the table of which `gpus` hold the config in some layout."""
    able = {name: gpu for name, gpu in GPUS.items() if not dtype_refusal(config, gpu)}
    fitting = [(gpu.gib, name) for name, gpu in able.items() if fits_somewhere(config, shape, gpu, gpus)]
    return min(fitting)[1] if fitting else None


def fits_somewhere(config: Config, shape: Shape, gpu: Gpu, gpus: int) -> bool:
    return any(not laid.problems() for _, _, laid in layouts(config, shape, gpu, gpus))
