"""LoRA on vLLM's CPU build: one matrix product per adapter in the batch, none for base rows.

vLLM 0.32's own CPU kernels gather a whole matrix per token, which is several times slower, and give the rows of the
base the adapter in the last slot when both are in one batch (index -1 wraps around). Its sampler compiles one small
function at the first token, which takes half a minute and saves nothing. The engine loads this module into its
worker; GPUs have kernels of their own and never see it.
"""

from __future__ import annotations

import torch
import torch._dynamo
from torch.nn.functional import linear
from vllm.lora.ops.torch_ops import lora_ops
from vllm.lora.punica_wrapper import punica_cpu

Groups = list[tuple[int, torch.Tensor | None]]
_groups: dict[tuple[int, int], Groups] = {}
_update_metadata = punica_cpu.PunicaWrapperCPU.update_metadata


class GroupedLora:
    """What `worker_extension_cls` names: importing it puts the kernels in place."""

    def lora_kernels(self) -> str:
        """Which kernels the worker runs."""
        return str(punica_cpu.bgmv_shrink.__module__)


def update_metadata(self: object, *args: object, **more: object) -> None:
    """A new batch: the groups of the old one no longer hold."""
    _groups.clear()
    _update_metadata(self, *args, **more)


def groups(slots: torch.Tensor) -> Groups:
    """Each slot in use with its rows (None: all of them); base rows have slot -1 and are in no group."""
    key = slots.data_ptr(), slots.shape[0]
    if key not in _groups:
        used = torch.unique(slots).tolist()
        rows = [(slot, None if len(used) == 1 else (slots == slot).nonzero(as_tuple=True)[0]) for slot in used]
        _groups[key] = [(slot, where) for slot, where in rows if slot >= 0]
    return _groups[key]


def bgmv_shrink(
    inputs: torch.Tensor, weights: torch.Tensor, output: torch.Tensor, slots: torch.Tensor, scaling: float = 1.0
) -> None:
    """output = scaling * inputs @ A, by adapter."""
    rank = weights.shape[-2]
    output[:, :rank].zero_()
    for slot, rows in groups(slots[: inputs.shape[0]]):
        matrix = _matrix(weights, slot)
        some = inputs if rows is None else inputs.index_select(0, rows)
        low = linear(some.to(matrix.dtype), matrix).to(output.dtype).mul_(scaling)
        if rows is None:
            output[:, :rank] = low
        else:
            output[rows, :rank] = low


def bgmv_expand(
    inputs: torch.Tensor, weights: torch.Tensor, output: torch.Tensor, slots: torch.Tensor, add_inputs: bool = True
) -> None:
    """output += inputs @ B, by adapter."""
    if not add_inputs:
        output.zero_()
    for slot, rows in groups(slots[: inputs.shape[0]]):
        matrix = _matrix(weights, slot)
        width = min(matrix.shape[0], output.shape[1])
        some = inputs if rows is None else inputs.index_select(0, rows)
        high = linear(some.to(matrix.dtype), matrix)[:, :width].to(output.dtype)
        if rows is None:
            output[:, :width] += high
        else:
            output[:, :width].index_add_(0, rows, high)


def bgmv_expand_slice(
    inputs: torch.Tensor,
    weights: torch.Tensor,
    output: torch.Tensor,
    slots: torch.Tensor,
    offset: int,
    size: int,
    add_inputs: bool = True,
) -> None:
    """The same into a slice of the output: merged projections hold several matrices side by side."""
    bgmv_expand(inputs, weights, output[:, offset : offset + size], slots, add_inputs)


def _matrix(weights: torch.Tensor, slot: int) -> torch.Tensor:
    matrix = weights[slot]
    return matrix.squeeze(0) if matrix.dim() == 3 else matrix


torch._dynamo.config.disable = True
punica_cpu.PunicaWrapperCPU.update_metadata = update_metadata
for _module in (lora_ops, punica_cpu):
    for _kernel in (bgmv_shrink, bgmv_expand, bgmv_expand_slice):
        setattr(_module, _kernel.__name__, _kernel)
