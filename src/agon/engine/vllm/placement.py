"""How much of a GPU an engine takes, and whether it sleeps: by what else is on that GPU.

An engine beside a learner sleeps while the learner works, so it may take whatever the learner leaves free when it
starts, except for a margin. An engine that has a GPU to itself takes most of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from agon.config import SamplerConfig

ALONE, BESIDE = 0.9, 0.45
"""Share of a GPU: on its own, and beside a learner when the engine does not sleep."""
MARGIN = 2 * 2**30
"""Bytes that it leaves free beside a learner: gradients and optimizer state, which do not exist yet, and fragments."""
SEQUENCES, BATCHED = 256, 8192
"""Completions that an engine on a GPU draws at once, and tokens that it computes at once, at most. vLLM's defaults for
an engine inside a program are half and a quarter of that."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes of a GPU that a learner is on, when it is loaded and idle."""

    free: int
    total: int

    @classmethod
    def here(cls) -> GpuMemory | None:
        """Of the GPU of the calling process and thread; None without one."""
        import torch

        if not torch.cuda.is_available():
            return None
        torch.cuda.empty_cache()
        return cls(*torch.cuda.mem_get_info())

    @property
    def share(self) -> float:
        """What an engine takes of it that sleeps while the learner works."""
        return max(0.0, min(ALONE, (self.free - MARGIN) / self.total))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an engine stands on its GPU."""

    memory: float
    """Share of the GPU."""
    sleeps: bool


def placement_of(settings: SamplerConfig, beside: GpuMemory | None) -> Placement:
    """What a config asks for, beside a learner, or with None alone."""
    sleeps = settings.sleep is True or (settings.sleep == "auto" and beside is not None)
    share = ALONE if beside is None else beside.share if sleeps else BESIDE
    return Placement(settings.gpu_memory_utilization or share, sleeps)
