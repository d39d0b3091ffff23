"""Attention inside the rows of a pack: exact, causal, and without a mask.

Rows of a pack lie one after the other in one sequence (`pack.py`), and no token may attend to another row. Kernels for
variable lengths do that where they are installed. Elsewhere `agon_rows` calls PyTorch's attention row by row: causal
kernels need no mask, where a mask over the whole pack would be quadratic in its length and exclude the fast ones.

Layers with linear attention carry a state from token to token, past the end of a row. They run row by row too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ROWS = "agon_rows"


def use_row_attention(model: Any, attention: str) -> None:
    """Let a base attend inside the rows of a pack, by `agon_rows` or a variable-length kernel of transformers."""
    model.set_attn_implementation(attention)
    for name, module in model.named_modules():
        if name.rpartition(".")[2] == "linear_attn":
            module.forward = functools.partial(_recur_by_row, module.forward)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    rows: Sequence[int] | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers calls this in every layer; `rows` are the lengths of a pack's rows."""
    settings: dict[str, Any] = {"dropout": dropout, "scaling": scaling, "sliding_window": sliding_window}
    if rows is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings, **more)
    parts = zip(query.split(rows, 2), key.split(rows, 2), value.split(rows, 2), strict=True)
    return torch.cat([_row(*part, dropout, scaling, sliding_window) for part in parts], 2).transpose(1, 2), None


def _row(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Causal attention of one row; only a row that is longer than the layer's window has a mask, its own."""
    mask, length = None, query.size(2)
    if window is not None and length > window:
        place = torch.arange(length, device=query.device)
        back = place[:, None] - place
        mask = (back >= 0) & (back < window)
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        scale=scaling,
        is_causal=mask is None,
        enable_gqa=query.size(1) != key.size(1),
    )


def _no_mask(*args: Any, attention_mask: torch.Tensor | None = None, **more: Any) -> Any:
    """A pack has no mask; a padded batch has the one that transformers makes."""
    return None if attention_mask is None else sdpa_mask(*args, attention_mask=attention_mask, **more)


def _recur_by_row(forward: Any, hidden_states: torch.Tensor, rows: Sequence[int] | None = None, **more: Any) -> Any:
    """A recurrent layer's own forward, once for each row of a pack."""
    if rows is None:
        return forward(hidden_states, **more)
    return torch.cat([forward(part) for part in hidden_states.split(rows, 1)], 1)


AttentionInterface.register(ROWS, attend)
AttentionMaskInterface.register(ROWS, _no_mask)
