"""Which precision a GPU can train and draw in: what `model.dtype` means for learner and engine, and what is refused.

vLLM's kernels for adapters compute in 16 bits. bfloat16 needs compute capability 8.0; older cards have float16, in
which gradients underflow, so that the learner computes in float32 there.
"""

from __future__ import annotations

from agon.config.bases import Dtype
from agon.errors import EngineError

Capability = tuple[int, int]
OLDEST: Capability = (7, 5)
"""Turing: builds of torch for CUDA 13, which the lock file names, have no kernels for older cards."""
BFLOAT16: Capability = (8, 0)
"""Ampere."""
NO_FLOAT32 = "vLLM's kernels for adapters have no float32 on a GPU"


def learner_dtype(dtype: Dtype) -> Dtype:
    """What the learner's base is loaded in, where the engine draws in `dtype`."""
    return "float32" if dtype == "float16" else dtype


def best_dtype(capability: Capability) -> Dtype:
    """What a GPU of this compute capability draws in."""
    return "bfloat16" if capability >= BFLOAT16 else "float16"


def gpu_dtype() -> Dtype | None:
    """What all GPUs of this machine can draw in; None without one."""
    import torch

    found = [torch.cuda.get_device_capability(number) for number in range(torch.cuda.device_count())]
    return best_dtype(min(found)) if found else None


def refusal(dtype: Dtype, gpu: str, capability: Capability, *, draws: bool = True) -> EngineError | None:
    """Why a GPU cannot learn in this dtype, or draw if `draws`, with the value that works; None if it can."""
    number = ".".join(map(str, capability))
    if capability < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return EngineError(
            f"{gpu} has compute capability {number}; torch and vLLM, as locked, have no kernels below {oldest}",
            fix="use a T4, an RTX 20 or anything newer",
        )
    if capability < BFLOAT16 and dtype == "bfloat16":
        return EngineError(
            f"{gpu} has no bfloat16: its compute capability is {number}",
            fix="set model.dtype=float16: engines draw in float16 and the learner computes in float32",
        )
    if dtype == "float32" and draws:
        return EngineError(NO_FLOAT32, fix=f"set model.dtype={best_dtype(capability)}")
    return None


def check_gpus(dtype: Dtype, *, draws: bool) -> None:
    """Refuse a dtype that a GPU of this machine cannot work in, before anything is loaded."""
    import torch

    for number in range(torch.cuda.device_count()):
        name, capability = torch.cuda.get_device_name(number), torch.cuda.get_device_capability(number)
        if error := refusal(dtype, name, capability, draws=draws):
            raise error
