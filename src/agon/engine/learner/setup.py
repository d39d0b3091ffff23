"""Before the first step: the base, its device, its attention; and the memory of both."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.utils import is_flash_attn_2_available

from agon.config import Model
from agon.engine.dtypes import learner_dtype
from agon.engine.learner.attention import ROWS
from agon.engine.quantize import load_nf4
from agon.engine.safe_load import load_model
from agon.errors import EngineError

FLASH_HEAD = 256
"""The largest head that flash_attention_2 has kernels for."""


def device_here() -> torch.device:
    """What the learner computes on: the first GPU, else the CPU. A Mac's GPU is not used: nothing was tried on it."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if found is None or found.type == "mps" else torch.device(found.type, 0)


def load_base(model: Model, path: str | None = None) -> Any:
    """The base, from `path` if it is not where its name says."""
    if model.quantize == "nf4":
        return load_nf4(model)
    return load_model(path or model.name, getattr(torch, learner_dtype(model.dtype)), revision=model.revision)


def without_dropout(base: Any) -> None:
    """Turn off whatever dropout a base was published with: engines draw without it, so that the learner's log-probs
    would be those of a different policy, and different ones in every pass."""
    for module in base.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]:
            setattr(module, name, 0.0)


def attention_of(model: Model, base: Any, device: torch.device) -> str:
    """The name by which transformers knows the attention that a config asks for."""
    if model.attention != "auto":
        return ROWS if model.attention == "rows" else model.attention
    widest = max(getattr(module, "head_dim", 0) for module in base.modules())
    flash = device.type == "cuda" and model.dtype == "bfloat16" and is_flash_attn_2_available()
    return "flash_attention_2" if flash and widest <= FLASH_HEAD else ROWS


def let_segments_grow(device: torch.device) -> None:
    """Let the allocator extend its blocks on a GPU: rows of many lengths leave holes in blocks of fixed size.

    The public way is an environment variable, which an engine would inherit: its allocator for sleeping refuses it.
    """
    if device.type == "cuda":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


def release_freed_memory(device: torch.device) -> None:
    """Return freed memory to the device or the system.

    torch keeps a GPU's blocks, where an engine that wakes up needs them. glibc keeps the holes that tensors of many
    lengths leave in a CPU's heap: without this a learner there holds more after every long step.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "cpu" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


@contextmanager
def explain_out_of_memory(what: str) -> Iterator[None]:
    """Report what took too much memory, and what takes less."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise EngineError(
            f"out of memory {what}: {error}",
            fix="lower train.tokens_per_pass, which a resume may change; then start a new run with shorter completions "
            "or model.quantize=nf4: `agon plan CONFIG --gpu GPU` says what fits",
        ) from error
