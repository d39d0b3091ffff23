"""The base of a run: the files that everything reads, their hash, and how long a sequence over it gets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agon.config import Config, Model
from agon.engine.base_config import base_path, published_files
from agon.engine.quantize import PLAIN, quantised_files
from agon.errors import ConfigError
from agon.rundir.files import weights_hash

PROMPT_ROOM = 2048
"""Tokens of context for a problem and our own text, where sampler.max_model_len is null."""


def base_files(model: Model, *, weights: bool = True) -> str:
    """The base at its revision, for everything that reads it: a folder, where the config names a revision on the Hub.

    Tokenizer, template, learner and engine then cannot come from different revisions. Of a quantised base these are its
    dequantised weights.
    """
    if model.quantize != "none" and weights:
        return str(quantised_files(model) / PLAIN)
    return published_files(model, weights=weights)


def base_hash(model: Model) -> str | None:
    """A hash of the weights of a base in a folder, which may have been replaced; None for one on the Hub."""
    return weights_hash(Path(base_path(model)))


def quieten(path: str) -> None:
    """Turn off progress bars for local weights and vLLM's remarks on kernels; both variables are read at import."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if Path(path).is_dir():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        if "transformers" in sys.modules:  # it has read the variable already
            sys.modules["transformers"].utils.logging.disable_progress_bar()


def context_of(config: Config, peeks: int = 1) -> int:
    """The length of the longest sequence, in tokens; `peeks` is how many attempts a prompt may quote."""
    train, length = config.train, config.sampler.max_model_len
    needed = peeks * train.max_peek_tokens + max(train.max_completion_tokens, config.eval.max_completion_tokens)
    if length is not None and length <= needed:
        message = f"sampler.max_model_len {length} does not hold {peeks} peeks and a completion: {needed} tokens"
        raise ConfigError(message, fix="raise sampler.max_model_len, or write null to derive it")
    return length or PROMPT_ROOM + needed
