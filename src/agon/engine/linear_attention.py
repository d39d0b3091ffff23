"""Bases with linear attention between their other layers, such as Qwen3.5: which they are, and whether they train fast.

transformers takes the kernels of linear attention from the package `fla` and otherwise runs a reference in PyTorch: the
same result, more than ten times slower on an H100 by its authors' note. Short sequences may use it.
"""

from __future__ import annotations

import importlib
from typing import Any

from agon.errors import ConfigError, install

LONGEST = 2000
"""Tokens of the longest sequence that may go through the reference."""
EXTRA = "qwen3-5"


def has_linear_attention(config: Any) -> bool:
    """Whether a base has such layers; `config` is its own, as transformers reads it."""
    return "linear_attention" in (getattr(config.get_text_config(), "layer_types", None) or ())


def has_kernels() -> bool:
    """Whether transformers finds the kernels: it imports them like this, and falls back silently when that fails."""
    try:
        return hasattr(importlib.import_module("fla.ops.gated_delta_rule"), "chunk_gated_delta_rule")
    except (ImportError, AttributeError, RuntimeError, OSError):  # also a package that is broken, or has no GPU
        return False


def is_too_slow(linear: bool, tokens: int) -> bool:
    """Whether a base with linear attention would send sequences of `tokens` through the reference."""
    return linear and tokens > LONGEST and not has_kernels()


def check_kernels(config: Any, tokens: int) -> None:
    """Refuse to train on sequences for which the reference is too slow."""
    if is_too_slow(has_linear_attention(config), tokens):
        raise ConfigError(
            f"this base has linear attention: without its kernels, sequences of {tokens:,} tokens are too slow to "
            f"train on (up to {LONGEST:,} are accepted)",
            fix=f"{install(EXTRA)}, or lower train.max_completion_tokens and train.max_peek_tokens",
        )
