"""Which GPUs each engine of a run gets on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from agon.config import SamplerConfig
from agon.errors import ConfigError

SPLIT = "tensor_parallel_size"
"""vLLM's name for the number of GPUs that an engine is split over."""


def visible_devices(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that a process may use, as CUDA_VISIBLE_DEVICES names them up to a `-1`; none on a CPU."""
    import torch

    named = environment.get("CUDA_VISIBLE_DEVICES")
    if not named:
        return [str(number) for number in range(torch.cuda.device_count())]
    return list(takewhile(lambda name: name != "-1", named.split(",")))


def gpus_per_engine(settings: SamplerConfig) -> int:
    """How many GPUs an engine is split over."""
    return int(settings.options.get(SPLIT, 1))


def can_split(each: int, heads: Sequence[tuple[int, int]]) -> bool:
    """Whether vLLM splits a base over `each` GPUs; `heads` of queries, and of keys, in its layers. A head of keys may
    be on several GPUs, a head of queries is on one."""
    return all(queries % each == 0 and (keys % each == 0 or each % keys == 0) for queries, keys in heads)


def check_split(each: int, heads: Sequence[tuple[int, int]], base: str) -> None:
    """Refuse to split a base over a number of GPUs that does not divide its heads."""
    if each > 1 and not can_split(each, heads):
        counts = " and ".join(f"{queries} attention heads, {keys} of keys" for queries, keys in dict.fromkeys(heads))
        largest = max(size for size in range(1, each) if can_split(size, heads))
        raise ConfigError(
            f"sampler.options.{SPLIT} is {each}, and vLLM cannot divide the heads of {base} by it: {counts}",
            fix=f"write sampler.options.{SPLIT}={largest}",
        )


def heads_in(config: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Heads of queries and of keys, as a base's config.json names them; those of linear attention are never copied."""
    text = config.get("text_config") or config
    queries = text.get("num_attention_heads", 1)
    linear = text.get("linear_num_key_heads")
    return [(queries, text.get("num_key_value_heads") or queries), *([(linear, linear)] if linear else [])]


def engine_devices(engines: int, devices: Sequence[str], each: int = 1) -> list[Sequence[str]]:
    """`each` consecutive GPUs for each engine; none on a CPU.

    They are the last ones: the learner has the first, so that no GPU has both without need.
    """
    if not devices:
        return [()] * engines
    have = f"this machine has {len(devices)} visible GPUs"
    if each > len(devices):
        fix = f"write sampler.options.{SPLIT}={len(devices)} or less, or make more GPUs visible"
        raise ConfigError(f"sampler.options.{SPLIT} is {each}, but {have}", fix=fix)
    if engines * each > len(devices):
        needed = f" and sampler.options.{SPLIT} is {each}: {engines * each} GPUs" if each > 1 else ""
        fix = f"write sampler.replicas={len(devices) // each} or less"
        raise ConfigError(f"sampler.replicas is {engines}{needed}, but {have}", fix=fix)
    first = len(devices) - engines * each
    return [devices[start : start + each] for start in range(first, len(devices), each)]
