"""From a config to a base and a sampler. Engines are imported here, inside functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agon.config import Config, Model, SamplerConfig
from agon.engine.devices import engine_devices, learners_here, visible_devices
from agon.engine.shipped import SHIPPED, folder_of
from agon.engine.versions import KEPT
from agon.engine.vllm.placement import GpuMemory, Placement, placement_of
from agon.errors import ConfigError
from agon.protocols import Sampler

if TYPE_CHECKING:
    from agon.engine.vllm.local import LocalEngine

EngineName = Literal["vllm", "hf"]
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

    Tokenizer, template, learner and engine then cannot come from different revisions.
    """
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


def _vllm(
    settings: SamplerConfig, model: Model, path: str, context: int, beside: Sequence[GpuMemory], staleness: int
) -> Sampler:
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.sampler import VLLMSampler
    from agon.engine.vllm.server import ServerEngine

    if settings.urls:
        servers = Fleet(*(ServerEngine(url, network=settings.network) for url in settings.urls))
        return VLLMSampler(path, servers, kept=KEPT + staleness)
    devices, learners = visible_devices(), learners_here()
    usual = learners if beside else max(len(devices), 1)  # without a learner, all GPUs
    chosen = engine_devices(settings.replicas or min(usual, len(devices) or learners), devices)
    shared: dict[str | None, GpuMemory] = dict(zip(devices, beside, strict=False))  # learners have the first GPUs
    places = [placement_of(settings, shared.get(device)) for device in chosen]
    engines = [
        local_engine(settings, model, path, context, place, device, staleness)
        for device, place in zip(chosen, places, strict=True)
    ]
    sleeps = any(place.sleeps for place in places)
    return VLLMSampler(path, Fleet(*engines), sleeps=sleeps, kept=KEPT + staleness)


def local_engine(
    settings: SamplerConfig,
    model: Model,
    path: str,
    context: int,
    place: Placement | None = None,
    device: str | None = None,
    staleness: int = 0,
) -> LocalEngine:
    """An engine that this process starts; by default alone on what the process sees."""
    from agon.engine.vllm.local import CACHED, LocalEngine

    place = place or placement_of(settings, None)
    return LocalEngine(
        path,
        dtype=model.dtype,
        context=context,
        rank=model.lora.rank,
        max_loras=settings.max_loras,
        cached=CACHED + 2 * staleness,
        memory=place.memory,
        sleeps=place.sleeps,
        options=settings.options,
        device=device,
    )


def default_engine() -> EngineName:
    """vLLM where there is a GPU, transformers where there is none."""
    import torch

    return "vllm" if torch.cuda.is_available() else "hf"


def build_sampler(
    settings: SamplerConfig,
    model: Model,
    path: str,
    context: int,
    *,
    beside: Sequence[GpuMemory] = (),
    staleness: int = 0,
) -> Sampler:
    """The sampler that a config names; `context` is the longest sequence it must hold, `beside` the learners' GPUs.

    It keeps a version of each policy more for every step of `staleness`.
    """
    if settings.engine == "hf":
        from agon.engine.hf import HFSampler

        return HFSampler(path, dtype=model.dtype, kept=KEPT + staleness)
    if settings.engine == "vllm":
        return _vllm(settings, model, path, context, beside, staleness)
    raise ConfigError(
        f"sampler.engine {settings.engine} cannot load adapters from disk",
        fix="add sampler.engine=vllm (or hf for a tiny model on a CPU) and sampler.urls=[]",
    )
