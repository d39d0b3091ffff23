"""The base of a run: where its files are, their hash, and how long a sequence over it gets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agon.config import Config, Model
from agon.engine.shipped import SHIPPED, folder_of
from agon.errors import ConfigError

PROMPT_ROOM = 2048
"""Tokens of context for a problem and our own text, where sampler.max_model_len is null."""
OTHER_FORMATS = ["*.gguf", "*.onnx", "*.pth", "*.h5", "*.msgpack", "original/*", "onnx/*"]
"""Files of a repository that no engine reads."""
TOKENIZER_FILES = ["*.json", "*.jinja", "*.model", "*.txt"]


def base_path(model: Model) -> str:
    """Where transformers and vLLM find the base: a folder for our own, else the name itself."""
    return str(folder_of(model.name)) if model.name.startswith(SHIPPED) else model.name


def base_files(model: Model, *, weights: bool = True) -> str:
    """The base at its revision, for everything that reads it: a folder, where the config names a revision on the Hub.

    Tokenizer, template, learner and engine then cannot come from different revisions. Of a quantised base these are its
    dequantised weights.
    """
    if model.quantize != "none" and weights:
        from agon.engine.quantize import PLAIN, quantised_files

        return str(quantised_files(model) / PLAIN)
    path = base_path(model)
    if model.revision is None or Path(path).is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    wanted = None if weights else TOKENIZER_FILES
    try:
        return snapshot_download(path, revision=model.revision, allow_patterns=wanted, ignore_patterns=OTHER_FORMATS)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is not available at revision {model.revision}: {error}",
            fix="check model.name, model.revision and the network",
        ) from error


def base_hash(model: Model) -> str | None:
    """A hash of the weights of a base in a folder, which may have been replaced; None for one on the Hub."""
    from agon.rundir.files import weights_hash

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
