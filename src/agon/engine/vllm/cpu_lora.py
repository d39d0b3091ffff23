"""LoRA on vLLM's CPU build: rows sorted by adapter, two matrix products for each, none for rows of the base.

vLLM 0.32's own CPU kernels gather a whole matrix per token, which is several times slower, and give the rows of the
base the adapter in the last slot when both are in one batch (index -1 wraps around). Its sampler compiles one small
function at the first token, which takes half a minute and saves nothing. The engine loads this module into its
worker; GPUs have their own kernels and never load it.

No row is ever multiplied with another adapter's matrices, not even by zero: an adapter of NaNs spoils its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from agon.engine.vllm.compat import PunicaWrapperCPU, install_cpu_kernels
from agon.engine.vllm.worker import StrictAdapters

Matrices = tuple[torch.Tensor | None, torch.Tensor, int]
"""A and B of all slots, and the column of the output where theirs begins; no A where rows are of low rank already."""


class GroupedLora(StrictAdapters):
    """What `worker_extension_cls` names on a CPU: importing it installs the kernels too."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of a batch by adapter."""

    order: torch.Tensor | None
    """The rows that have an adapter, sorted by slot; None: all rows, as they are."""
    spans: tuple[tuple[int, int, int], ...]
    """Slot, first and last + 1 in that order."""


def grouped(slots: torch.Tensor) -> Grouped:
    """Rows of each slot; those of the base have slot -1 and are in no span."""
    used, counts = (values.tolist() for values in torch.unique(slots, return_counts=True))
    spans, start = [], 0
    for slot, count in zip(used, counts, strict=True):
        if slot >= 0:
            spans.append((slot, start, start + count))
            start += count
    if len(used) == 1:
        return Grouped(None, tuple(spans))
    return Grouped(slots.argsort(stable=True)[len(slots) - start :], tuple(spans))


def add(rows: Grouped, y: torch.Tensor, x: torch.Tensor, matrices: Iterable[Matrices], scale: float = 1.0) -> None:
    """y += scale * x @ A @ B in place, each row with the matrices of its own slot."""
    if not rows.spans:
        return
    given, made = (x, y) if rows.order is None else (x.index_select(0, rows.order), y.index_select(0, rows.order))
    for low, high, column in matrices:
        for slot, start, stop in rows.spans:
            some, expand = given[start:stop], high[slot, 0]
            if low is not None:
                shrink = low[slot, 0]
                some = some.to(shrink.dtype) @ shrink.T
            width = min(expand.shape[0], made.shape[1] - column)
            factors = some.to(made.dtype), expand[:width].T.to(made.dtype)  # a head may be in float32
            made[start:stop, column : column + width].addmm_(*factors, alpha=scale)
    if rows.order is not None:
        y.index_copy_(0, rows.order, made)


class GroupedWrapper(PunicaWrapperCPU):
    """vLLM's LoRA layers call these; `grouped` is computed once per batch."""

    tokens = sampled = Grouped(None, ())

    def update_metadata(self, *args: Any, **more: Any) -> None:
        super().update_metadata(*args, **more)
        self.tokens, self.sampled = grouped(self.token_lora_indices), grouped(self.sampler_indices)

    def add_lora_linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: tuple[torch.Tensor, ...],
        lora_b_stacked: tuple[torch.Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        **more: Any,
    ) -> None:
        """Merged projections hold several matrices side by side: a slice of the output for each."""
        columns = accumulate((0, *output_slices[:-1]))
        add(self.tokens, y, x, zip(lora_a_stacked, lora_b_stacked, columns, strict=True), scale)

    def add_lora_embedding(self, y: torch.Tensor, x: torch.Tensor, lora_b_stacked: torch.Tensor, **more: Any) -> None:
        add(self.tokens, y, x, [(None, lora_b_stacked, 0)])

    def add_lora_logits(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        scale: float,
        **more: Any,
    ) -> None:
        add(self.sampled, y, x, [(lora_a_stacked, lora_b_stacked, 0)], scale)


install_cpu_kernels(GroupedWrapper)
