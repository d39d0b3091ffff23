"""Which GPU each engine of a run gets on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agon.errors import ConfigError


def learners_here() -> int:
    """Learner processes on this machine; torchrun and `accelerate launch` set it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def visible_devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; none on a CPU."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


def engine_devices(engines: int, devices: Sequence[str]) -> list[str | None]:
    """A GPU for each engine, the last ones: learner processes have the first, so that no GPU has both without need."""
    if not devices:
        return [None] * engines
    if engines > len(devices):
        raise ConfigError(
            f"sampler.replicas is {engines}, but this machine has {len(devices)} visible GPUs",
            fix=f"write sampler.replicas={len(devices)} or less",
        )
    return list(devices[-engines:])
