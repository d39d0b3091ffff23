"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.config import Config, Model, SamplerConfig
from agon.engine.base import Learner, Sampler
from agon.engine.canary import Canary
from agon.engine.render import Renderer
from agon.errors import ConfigError
from agon.types import Policy

TINY = "agon:tiny"
"""The base that ships with the package."""
PROMPT_ROOM = 2048
"""Tokens of context for a problem and our own words, where sampler.max_model_len is null."""

OTHER_FORMATS = ["*.gguf", "*.onnx", "*.pth", "*.h5", "*.msgpack", "original/*", "onnx/*"]
WORDS = ["*.json", "*.jinja", "*.model", "*.txt"]
"""Files of a repository that no engine of ours reads; and those that a tokenizer and its template are made of."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Any
    renderer: Renderer
    canary: Canary | None = None
    """Compares what the engine samples with what the learner holds; None where both are the same code."""

    def check(self, versions: Mapping[Policy, str]) -> None:
        """Stop unless the engine samples from what the learner holds."""
        if self.canary:
            self.canary.check(versions)

    def recheck(self, versions: Mapping[Policy, str]) -> bool:
        """Check again if the engine was started anew since; say whether it was."""
        return self.canary is not None and self.canary.recheck(versions)

    def gaps(self) -> dict[str, float]:
        """How far the live versions of the engine are from the learner, in nats a token; empty without a canary."""
        return dict(self.canary.measured) if self.canary else {}

    def alarms(self, metrics: Mapping[Policy, Mapping[str, float]]) -> list[str]:
        """What a step's own samples say about the engine; stops the run when they came from another policy."""
        return self.canary.alarms(metrics) if self.canary else []

    def rest(self) -> None:
        """Let an engine beside the learner give its memory back, if it was told to."""
        if self.canary:
            self.canary.sampler.rest()

    def close(self) -> None:
        self.sampler.close()
        self.verify.close()


def base_path(model: Model) -> str:
    """Where transformers and vLLM find the base: a folder for our own, else the name itself."""
    if model.name != TINY:
        return model.name
    from agon.engine.tiny import tiny_base

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
    from agon.disk.files import weights_hash

    return weights_hash(Path(base_path(model)))


def quieten(path: str) -> None:
    """No bars for weights that are on this disk, and no remarks of vLLM on kernels; both are read at import."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if Path(path).is_dir():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def build(config: Config, total_steps: int) -> Machines:
    """Everything a training run needs, loaded."""
    path = base_files(config.model)
    quieten(path)
    from agon.engine.trl import TRLLearner
    from agon.engine.trl_setup import load_base
    from agon.verify import load_verifier

    base = load_base(config.model.model_copy(update={"name": path}))
    learner = TRLLearner(config.model, config.train, total_steps=total_steps, base=base)
    sampler = build_sampler(config.sampler, config.model, path, context_of(config))
    canary = _canary(sampler, learner, config)
    return Machines(learner, sampler, load_verifier(config.verifier), Renderer.load(path), canary)


def context_of(config: Config) -> int:
    """Tokens that the longest sequence of a run may have."""
    train = config.train
    longest = max(train.max_completion_tokens, config.eval.max_completion_tokens)
    return config.sampler.max_model_len or PROMPT_ROOM + train.max_peek_tokens + longest


def _canary(sampler: Sampler, learner: Any, config: Config) -> Canary | None:
    from agon.engine.canary import learner_score
    from agon.engine.vllm import VLLMSampler

    if not isinstance(sampler, VLLMSampler):
        return None
    return Canary(
        sampler, learner_score(learner), config.sampler.max_loras, config.train.temperature, config.model.dtype
    )


def _vllm(settings: SamplerConfig, model: Model, path: str, context: int) -> Sampler:
    from agon.engine.vllm import VLLMSampler
    from agon.engine.vllm_http import ServerEngine
    from agon.engine.vllm_local import LocalEngine

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
