"""LoRA kernels of vLLM's CPU build: every row gets its own adapter, whatever else is in the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("vllm")

from vllm.lora.layers import LoRAMapping
from vllm.lora.punica_wrapper import punica_selector

from agon.engine.vllm.cpu_lora import GroupedWrapper, add, grouped

SLOTS, RANK, WIDE = 4, 3, 10
SLICES = (6, 2, 4)
IDS = [7, None, 9, 8]
"""Which adapter sits in each slot: mappings speak of ids, kernels of slots."""


@pytest.fixture
def wrapper() -> Any:
    """What vLLM itself makes on this platform, once our module was imported."""
    lora_config: Any = None
    return punica_selector.get_punica_wrapper(64, max_batches=8, device=torch.device("cpu"), lora_config=lora_config)


def batch(wrapper: Any, prompts: list[tuple[int, int]]) -> list[int]:
    """Tell the wrapper of a new batch of (adapter, tokens), where 0 is the base; the slot of each token."""
    tokens = tuple(adapter for adapter, count in prompts for _ in range(count))
    mapping = LoRAMapping(tokens, tuple(adapter for adapter, _ in prompts), is_prefill=True)
    wrapper.update_metadata(mapping, IDS, SLOTS, 32)
    return [IDS.index(adapter) if adapter else -1 for adapter in tokens]


def stacked(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(SLOTS, 1, rows, columns)


def projection() -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """A and B of three merged matrices."""
    return tuple(stacked(RANK, WIDE) for _ in SLICES), tuple(stacked(size, RANK) for size in SLICES)


def by_row(y: torch.Tensor, x: torch.Tensor, a: Any, b: Any, slots: list[int], scale: float) -> torch.Tensor:
    """The same, a row and a slice at a time."""
    made = y.clone()
    for n, slot in enumerate(slots):
        if slot >= 0:
            made[n] += scale * torch.cat([high[slot, 0] @ low[slot, 0] @ x[n] for low, high in zip(a, b, strict=True)])
    return made


MIXED = [(7, 3), (0, 2), (9, 1), (7, 1), (8, 4), (0, 1), (9, 2)]


@pytest.mark.parametrize(
    "prompts",
    [MIXED, [(9, 5)], [(9, 2), (9, 3)], [(0, 4)], [(8, 1), (7, 1)], [(0, 1), (8, 1)]],
    ids=["mixed", "one", "one twice", "base", "two", "base and one"],
)
def test_every_row_gets_its_own_adapter(wrapper: Any, prompts: list[tuple[int, int]]) -> None:
    torch.manual_seed(0)
    slots = batch(wrapper, prompts)
    (a, b), x, y = projection(), torch.randn(len(slots), WIDE), torch.randn(len(slots), sum(SLICES))
    expected = by_row(y, x, a, b, slots, 0.5)
    wrapper.add_lora_linear(y, x, a, b, 0.5, SLICES)
    assert isinstance(wrapper, GroupedWrapper)
    torch.testing.assert_close(y, expected)


def test_an_adapter_of_nans_spoils_no_other_row_and_the_base_is_untouched(wrapper: Any) -> None:
    slots = torch.tensor(batch(wrapper, MIXED))
    (a, b), x, y = projection(), torch.randn(len(slots), WIDE), torch.randn(len(slots), sum(SLICES))
    broken = IDS.index(7)
    for weights in (*a, *b):
        weights[broken] = torch.nan
    before = y.clone()
    wrapper.add_lora_linear(y, x, a, b, 1.0, SLICES)
    assert torch.equal(y.isnan().any(1), slots == broken)
    assert torch.equal(y[slots == -1], before[slots == -1])


def test_a_new_batch_forgets_the_rows_of_the_last(wrapper: Any) -> None:
    (a, b), x = projection(), torch.randn(4, WIDE)
    for prompts in ([(7, 1), (9, 3)], [(9, 3), (7, 1)], [(8, 4)], [(0, 4)]):
        slots, y = batch(wrapper, prompts), torch.zeros(4, sum(SLICES))
        wrapper.add_lora_linear(y, x, a, b, 1.0, SLICES)
        torch.testing.assert_close(y, by_row(torch.zeros_like(y), x, a, b, slots, 1.0))


def test_logits_follow_prompts_and_embeddings_follow_tokens(wrapper: Any) -> None:
    slots = batch(wrapper, MIXED)
    sampled = [IDS.index(adapter) if adapter else -1 for adapter, _ in MIXED]
    a, b, x, logits = stacked(RANK, WIDE), stacked(5, RANK), torch.randn(len(MIXED), WIDE), torch.randn(len(MIXED), 5)
    expected = by_row(logits, x, [a], [b], sampled, 2.0)
    wrapper.add_lora_logits(logits, x, a, b, 2.0)
    torch.testing.assert_close(logits, expected)

    low, y = torch.randn(len(slots), RANK), torch.randn(len(slots), 5)
    expected = by_row(y, low, [torch.eye(RANK).expand(SLOTS, 1, -1, -1)], [b], slots, 1.0)
    wrapper.add_lora_embedding(y, low, b, add_input=True)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("output", [torch.bfloat16, torch.float32], ids=str)
def test_half_precision_is_as_close_as_its_rounding(output: torch.dtype) -> None:
    """Also where the head is in float32."""
    torch.manual_seed(0)
    slots = torch.tensor([0, 2, 0, -1, 2, 2])
    a, b = stacked(RANK, WIDE).bfloat16(), stacked(6, RANK).bfloat16()
    x, y = torch.randn(6, WIDE).to(output), torch.randn(6, 6).to(output)
    expected = by_row(y.double(), x.double(), [a.double()], [b.double()], slots.tolist(), 1.0)
    add(grouped(slots), y, x, [(a, b, 0)])
    torch.testing.assert_close(y.double(), expected, rtol=0.03, atol=0.03)
