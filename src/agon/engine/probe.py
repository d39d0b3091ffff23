"""What torch sees on this machine, for `agon doctor`, which must not import torch itself."""

from __future__ import annotations


def accelerators() -> list[str]:
    """The CUDA devices with their memory; none on a CPU machine."""
    import torch

    devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [f"{device.name} {device.total_memory / 2**30:.1f} GiB" for device in devices]
