"""Adapters as files, for the canary: one with large random weights, and whether one changes anything."""

from __future__ import annotations

import shutil
from pathlib import Path

WEIGHTS = "adapter_model.safetensors"
NORM = 0.5
"""Standard deviation of a throw-away adapter's weights: far beyond any trained one."""


def throw_away(pattern: Path, folder: Path, seed: int) -> Path:
    """An adapter of the shape of `pattern` with large random weights."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    shutil.copy(pattern / "adapter_config.json", folder)
    shapes = load_file(pattern / WEIGHTS)
    weights = {name: NORM * torch.randn(t.shape, generator=generator).to(t.dtype) for name, t in shapes.items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    return folder


def is_zero(folder: Path) -> bool:
    """Whether an adapter changes nothing: all of lora_B is zero."""
    from safetensors import safe_open

    with safe_open(folder / WEIGHTS, "pt") as file:
        return not any(bool(file.get_tensor(name).any()) for name in file.keys() if ".lora_B." in name)  # noqa: SIM118
