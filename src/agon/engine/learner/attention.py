"""Attention inside the rows of a pack: exact, causal, and without a mask.

Rows of a pack lie one after the other in one sequence (`batch.py`), and no token may attend to another row. `agon_rows`
calls PyTorch's kernel for variable lengths where there is one: on GPUs, in half precision. Elsewhere it calls PyTorch's
attention row by row: causal kernels need no mask, where a mask over the whole pack would be quadratic in its length and
exclude the fast ones. A layer with a window is computed in blocks of it then.

Layers with linear attention carry a state from token to token, past the end of a row. They run row by row too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agon.errors import ConfigError

ROWS = "agon_rows"
SHARED_HEAD = 256
"""The largest head for which fast kernels share keys between heads of queries, and that flash attention has."""
UNKNOWN = ("softcap", "s_aux")
"""What Gemma 2 and gpt-oss change scores by; PyTorch's kernels would leave it out in silence."""
FLASH = (8, 0)
"""The first compute capability with flash attention."""


def use_row_attention(model: Any, attention: str) -> None:
    """Let a base attend inside the rows of a pack, by `agon_rows` or a variable-length kernel of transformers.

    Every process gets the same kernels. By default PyTorch takes cuDNN's on some GPUs, which builds a plan for every
    new length, unless the process has imported vLLM, which turns it off for all.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
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
    if any(more.get(name) is not None for name in UNKNOWN):
        raise ConfigError(
            "this base caps attention scores or has attention sinks, which model.attention rows does not compute",
            fix="install flash-attn and set model.attention=flash_attention_2, or name a different base",
        )
    if not dropout and _has_varlen(query):
        return _varlen(query, key, value, scaling, sliding_window, more["cu_seq_lens_q"], more["max_length_q"]), None
    if query.size(1) != key.size(1) and not _shares_keys(query, sliding_window):
        key, value = (states.repeat_interleave(query.size(1) // key.size(1), 1) for states in (key, value))
    parts = zip(query.split(rows, 2), key.split(rows, 2), value.split(rows, 2), strict=True)
    done = [_row(*part, dropout, scaling, sliding_window).transpose(1, 2) for part in parts]
    return done[0] if len(done) == 1 else torch.cat(done, 1), None


def _has_varlen(query: torch.Tensor) -> bool:
    """Whether PyTorch's kernel for variable lengths takes this."""
    size, half = query.size(-1), query.dtype in (torch.bfloat16, torch.float16)
    return query.is_cuda and half and size <= SHARED_HEAD and size % 8 == 0 and _has_flash(query.device)


@functools.cache
def _has_flash(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= FLASH


def _varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
    ends: torch.Tensor,
    longest: int,
) -> torch.Tensor:
    """All rows of a pack in one call; a window counts the token itself, the kernel those before it."""
    flat = (states[0].transpose(0, 1) for states in (query, key, value))
    before = -1 if window is None else window - 1
    done = varlen_attn(
        *flat, ends, ends, longest, longest, scale=scaling, window_size=(before, 0),
        enable_gqa=query.size(1) != key.size(1),
    )  # fmt: skip
    return done[None]


def _shares_keys(query: torch.Tensor, window: int | None) -> bool:
    """Whether fast kernels let several heads of queries read one head of keys: in half precision, up to a head size,
    and without a mask. Others would fall back to a kernel that writes down every score."""
    return window is None and query.size(-1) <= SHARED_HEAD and not (query.is_cuda and query.dtype == torch.float32)


def _row(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Causal attention of one row, within the layer's window if it has one."""
    settings: dict[str, Any] = {"dropout_p": dropout, "scale": scaling}
    if window is None or query.size(2) <= window:
        shared = query.size(1) != key.size(1)
        return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=shared, **settings)
    return _windows(query, key, value, window, settings)


def _windows(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int, settings: dict[str, Any]
) -> torch.Tensor:
    """Attention of a row that is longer than the window, in blocks of it: each sees itself and the one before it.

    The mask is of one block; over the whole row it would be quadratic, and so would the work. Keys of neighbouring
    blocks overlap in memory, so that none is stored twice.
    """
    length = query.size(2)
    query, key, value = (pad(states, (0, 0, 0, -length % window)) for states in (query, key, value))
    first = scaled_dot_product_attention(
        query[:, :, :window], key[:, :, :window], value[:, :, :window], is_causal=True, **settings
    )
    own = query[0].unfold(1, window, window).permute(1, 0, 3, 2)[1:]
    keys, values = (states[0].unfold(1, 2 * window, window).permute(1, 0, 3, 2) for states in (key, value))
    place = torch.arange(2 * window, device=query.device)
    back = place[window:, None] - place
    mask = (back >= 0) & (back < window)
    others = scaled_dot_product_attention(own, keys, values, attn_mask=mask, **settings)
    return torch.cat([first[0], others.transpose(0, 1).flatten(1, 2)], 1)[None, :, :length]


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
