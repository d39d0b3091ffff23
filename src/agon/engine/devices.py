"""Which GPUs each engine of a run gets on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agon.config import SamplerConfig
from agon.errors import ConfigError

SPLIT = "tensor_parallel_size"
"""vLLM's name for the number of GPUs that an engine is split over."""


def learners_here() -> int:
    """Learner processes on this machine; torchrun and `accelerate launch` set it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def visible_devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; none on a CPU."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


def gpus_per_engine(settings: SamplerConfig) -> int:
    """How many GPUs an engine is split over."""
    return int(settings.options.get(SPLIT, 1))


def engine_devices(engines: int, devices: Sequence[str], each: int = 1) -> list[Sequence[str]]:
    """`each` consecutive GPUs for each engine; none on a CPU.

    They are the last ones: learner processes have the first, so that no GPU has both without need.
    """
    if not devices:
        return [()] * engines
    have = f"this machine has {len(devices)} visible GPUs"
    if each > len(devices):
        fix = f"write sampler.options.{SPLIT}={len(devices)} or less, or make more GPUs visible"
        raise ConfigError(f"sampler.options.{SPLIT} is {each}, but {have}", fix=fix)
    if engines * each > len(devices):
        needed = f" and sampler.options.{SPLIT} is {each}: {engines * each} GPUs" if each > 1 else ""
        fix = f"write sampler.replicas={len(devices) // each} or less"
        raise ConfigError(f"sampler.replicas is {engines}{needed}, but {have}", fix=fix)
    first = len(devices) - engines * each
    return [devices[start : start + each] for start in range(first, len(devices), each)]
