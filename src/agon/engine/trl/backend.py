"""Which multi-GPU backends the learner supports; checked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping

from agon.errors import ConfigError

_FIX = "launch with plain data parallelism: accelerate launch --multi_gpu, or torchrun"

_SPLIT = "launch with torchrun, and split the frozen base alone: train.shard=base"


def check_backend(environ: Mapping[str, str], clip_norm: float | None) -> None:
    """Refuse a backend of `accelerate launch` that would couple the two policies or has not been proven."""
    if _on(environ, "ACCELERATE_USE_DEEPSPEED"):
        raise ConfigError(_deepspeed(clip_norm), fix=_FIX)
    if _on(environ, "ACCELERATE_USE_FSDP"):
        version = environ.get("FSDP_VERSION", "1")
        raise ConfigError(_FSDP1 if version == "1" else _FSDP2, fix=_SPLIT)


def check_devices(visible: int) -> None:
    """Refuse one process that sees several GPUs: it would split each micro-batch between copies of the model."""
    if visible > 1:
        raise ConfigError(
            f"one process sees {visible} GPUs",
            fix=f"learn on all, torchrun --nproc-per-node {visible} -m agon train ..., or on the first and leave the "
            "others to engines (sampler.replicas), torchrun --nproc-per-node 1 -m agon train ..., or use one: "
            "CUDA_VISIBLE_DEVICES=0",
        )


def _deepspeed(clip_norm: float | None) -> str:
    if clip_norm is not None:
        return "DeepSpeed clips all parameters by one joint norm, so one policy's gradient would shrink the other's"
    return "DeepSpeed steps the optimizer inside backward, so the micro-batches of two policies cannot share a step"


_FSDP1 = "FSDP1 clips only the whole model by one joint norm, so one policy's gradient would shrink the other's"
_FSDP2 = "FSDP2 by accelerate splits the adapters too, and each policy is clipped, saved and published whole"


def _on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "false").lower() in {"1", "true", "yes"}
