"""Every name of TRL, transformers and torch that is not part of their public interface, and why it is needed.

tests/engine/test_compat.py fails when one moves, and when another file of this folder reaches for one of its own.

TRL 1.16 imports all of vLLM wherever it is installed, for a generation path that we do not use; that takes half of the
time that a run needs to start. While TRL is imported, vLLM is reported as missing.
"""

from __future__ import annotations

from typing import Any

import torch
import trl.import_utils as gate
from transformers.distributed import DistributedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.utils import is_flash_attn_2_available

_real = gate.is_vllm_available
gate.is_vllm_available = lambda min_version=None: False
try:
    from trl import GRPOConfig, GRPOTrainer
    from trl.trainer import grpo_trainer
finally:
    gate.is_vllm_available = _real

__all__ = [
    "HOOKS",
    "DistributedConfig",
    "GRPOConfig",
    "GRPOTrainer",
    "abort_collectives",
    "grow_segments",
    "grpo_trainer",
    "is_flash_attn_2_available",
    "no_dataset",
    "sdpa_attention_forward",
    "sdpa_mask",
    "split_by_layers",
]

HOOKS = {
    "_prepare_inputs": "overridden: hands over the finished micro-batch",
    "_get_per_token_logps_and_entropies": "overridden: the packed forward pass",
    "_compute_loss": "called by training_step, as it is: the loss",
    "_send_telemetry": "overridden: nothing is sent",
    "_metrics": "set for one micro-batch, to catch what the loss logs",
    "current_gradient_accumulation_steps": "set: what the loss divides by",
}
"""What `PairTrainer` overrides or sets of `GRPOTrainer`, which has no other way in for finished rollouts."""


def no_dataset() -> Any:
    """The dataset that a GRPOTrainer requires, of its own class: one prompt that nobody asks for."""
    return grpo_trainer.Dataset.from_dict({"prompt": [""]})


def grow_segments() -> None:
    """Let torch's allocator extend its blocks on a GPU. The public way is an environment variable, which an engine
    would inherit: its allocator for sleeping refuses it."""
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")


def split_by_layers(kind: type[Any]) -> type[Any]:
    """A model class that FSDP2 splits by layers alone. transformers would split the output head by itself too, whose
    weight TRL's fused head uses without calling it, so that nothing would gather it."""

    def init_parallel_plans(self: Any) -> None:
        kind.init_parallel_plans(self)
        self._fsdp_plan = {name: how for name, how in self._fsdp_plan.items() if name.endswith(".*")}

    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "init_parallel_plans": init_parallel_plans})


def abort_collectives(device: torch.device) -> None:
    """End what waits for a process that is gone: on a GPU nothing could be copied from the device before."""
    if device.type == "cuda":
        torch.distributed.distributed_c10d._abort_process_group()
