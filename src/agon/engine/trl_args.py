"""TRL's GRPOConfig as `AgonTrainer` is given it: what it says is read there."""

from __future__ import annotations

from typing import Any

from agon.errors import InputError


def grpo_config(args: Any, model: str) -> Any:
    """The GRPOConfig, made as GRPOTrainer makes one where none is given."""
    from torch.cuda import is_available
    from trl import GRPOConfig

    if args is None:
        folder = f"{model.rstrip('/').rpartition('/')[2]}-Agon".replace(":", "-")
        return GRPOConfig(output_dir=folder, use_cpu=not is_available())
    if not isinstance(args, GRPOConfig):
        raise InputError(f"args is a {type(args).__name__}, not a GRPOConfig", fix="args=trl.GRPOConfig(...)")
    return args
