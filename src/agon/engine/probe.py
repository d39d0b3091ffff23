"""What torch sees on this machine. Asked by `agon doctor`, which must not import torch itself."""

from __future__ import annotations

from typing import Any


def accelerators() -> list[dict[str, Any]]:
    """The CUDA devices with their memory in GiB; none on a CPU machine."""
    import torch

    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(place) for place in range(torch.cuda.device_count())]
    return [{"name": device.name, "memory_gib": round(device.total_memory / 2**30, 1)} for device in found]
