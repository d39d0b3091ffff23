"""From a config to a base and a sampler. Engines are imported here, inside functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agon.config import Config, Model, SamplerConfig
from agon.errors import ConfigError
from agon.protocols import Sampler

TINY = "agon:tiny"
"""The base that ships with the package."""
PROMPT_ROOM = 2048
"""Tokens of context for a problem and our own words, where sampler.max_model_len is null."""
OTHER_FORMATS = ["*.gguf", "*.onnx", "*.pth", "*.h5", "*.msgpack", "original/*", "onnx/*"]
WORDS = ["*.json", "*.jinja", "*.model", "*.txt"]
"""Files of a repository that no engine of ours reads; and those that a tokenizer and its template are made of."""


def base_path(model: Model) -> str:
    """Where transformers and vLLM find the base: a folder for our own, else the name itself."""
    if model.name != TINY:
        return model.name
    from agon.engine.tiny.checkpoint import tiny_base

    return str(tiny_base())


def base_files(model: Model, *, weights: bool = True) -> str:
    """The base at its revision, for everything that reads it: a folder, where the config names a revision on the Hub.

    Tokenizer, template, learner and engine then cannot come from different revisions.
    """
    path = base_path(model)
    if model.revision is None or Path(path).is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    wanted = None if weights else WORDS
    try:
        return snapshot_download(path, revision=model.revision, allow_patterns=wanted, ignore_patterns=OTHER_FORMATS)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be had at revision {model.revision}: {error}",
            fix="check model.name, model.revision and the network",
        ) from error


def base_hash(model: Model) -> str | None:
    """What tells a base in a folder from another that was put in its place; None for one on the Hub."""
    from agon.rundir.files import weights_hash

    return weights_hash(Path(base_path(model)))


def quieten(path: str) -> None:
    """No bars for weights that are on this disk, and no remarks of vLLM on kernels; both are read at import."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if Path(path).is_dir():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def context_of(config: Config) -> int:
    """Tokens that the longest sequence of a run may have."""
    train = config.train
    longest = max(train.max_completion_tokens, config.eval.max_completion_tokens)
    return config.sampler.max_model_len or PROMPT_ROOM + train.max_peek_tokens + longest


def _vllm(settings: SamplerConfig, model: Model, path: str, context: int) -> Sampler:
    from agon.engine.vllm.local import LocalEngine
    from agon.engine.vllm.sampler import VLLMSampler
    from agon.engine.vllm.server import ServerEngine

    if settings.url:
        return VLLMSampler(path, ServerEngine(settings.url, network=settings.network))
    limits = {"context": context, "rank": model.lora.rank, "max_loras": settings.max_loras}
    more: dict[str, Any] = {"memory": settings.gpu_memory_utilization, "enable_sleep_mode": settings.sleep}
    engine = LocalEngine(path, dtype=model.dtype, **limits, **more)
    return VLLMSampler(path, engine, sleeps=settings.sleep)


def build_sampler(settings: SamplerConfig, model: Model, path: str, context: int) -> Sampler:
    """The sampler that a config names; `context` is the longest sequence it must hold."""
    if settings.engine == "hf":
        from agon.engine.hf import HFSampler

        return HFSampler(path, dtype=model.dtype)
    if settings.engine == "vllm":
        return _vllm(settings, model, path, context)
    raise ConfigError(
        f"sampler.engine {settings.engine} cannot draw completions for a training run",
        fix="write sampler.engine=hf for a tiny model on a CPU",
    )
