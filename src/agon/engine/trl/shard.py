"""The frozen base in parts, one on each learner process: FSDP2 (`train.shard: base`).

transformers builds the base without memory, and each process reads its own part of every weight. A pass gathers a layer
when it comes to it and frees it behind it; embeddings and output head are gathered for the length of a pass. Adapters
are added afterwards, as plain tensors that every process holds whole: export, clipping, optimizer and publication are
those of a base that is not split.

So every process must take part in every pass. Micro-batches are evened out (`batch.py`). A process that scores alone,
as the canary does, asks the others for passes, which they run while they wait (`Passes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import TCPStore
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from agon.engine.base_config import check_on_hub
from agon.engine.safe_load import cannot_load
from agon.engine.trl.collectives import collective
from agon.engine.trl.compat import DistributedConfig, split_by_layers
from agon.errors import ConfigError

ASKED = "passes"
"""Key of the store: passes that processes have asked the others for, since the start."""


def load_part(path: str, dtype: torch.dtype, *, revision: str | None, processes: int) -> Any:
    """This process's part of a base, on its device; all processes must call it."""
    from transformers import AutoConfig, AutoModelForCausalLM

    if processes == 1:
        raise ConfigError(
            "train.shard base splits the base over learner processes, and this is the only one",
            fix="start several, torchrun --nproc-per-node GPUS -m agon train ..., or write train.shard=none",
        )
    check_on_hub(path, revision)
    try:
        config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=False)
        with torch.device("meta"):
            whole = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        base = split_by_layers(type(whole)).from_pretrained(
            path,
            config=whole.config,
            revision=revision,
            dtype=dtype,
            use_safetensors=True,
            distributed_config=DistributedConfig(fsdp_size=processes),
        )
    except Exception as error:  # a damaged file makes transformers raise nearly anything
        raise cannot_load(path, error) from error
    if whole_ones := [name for name, weight in base.named_parameters() if not isinstance(weight, DTensor)]:
        raise ConfigError(f"train.shard base cannot split {whole_ones[0]} of {path}", fix="write train.shard=none")
    base.set_reshard_after_forward(True, recurse=False)  # scoring has no backward pass that would free the head
    return base


def gathered_bytes(base: Any) -> int:
    """What a pass gathers at most: embeddings and output head, the layer that it computes and the next."""
    layers = [_bytes(module) for module in base.modules() if isinstance(module, FSDPModule) and module is not base]
    return _bytes(base) - sum(layers) + 2 * max(layers)


def _bytes(module: Any) -> int:
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


class Passes:
    """Passes that one process asks for and all run: counted in the store, so that each runs all, in one order."""

    def __init__(self, store: TCPStore, run: Callable[[], object]) -> None:
        """`run` is a pass of a process that has nothing to compute."""
        self._store, self._run, self._done = store, run, 0

    def join(self) -> None:
        """Run what others have asked for."""
        self._run_until(self._store.add(ASKED, 0))

    def claim(self, number: int) -> None:
        """Ask the others for so many passes. The caller runs them next; those that others asked for before run here."""
        with collective():
            last = self._store.add(ASKED, number)
        self._run_until(last - number)
        self._done = last

    def _run_until(self, last: int) -> None:
        while self._done < last:
            self._done += 1
            self._run()
