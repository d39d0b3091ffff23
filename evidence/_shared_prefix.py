"""A sampler for part L of docs/results/competition-plan.md, which reads less: it draws what `HFSampler` draws.

Prompts of one problem begin alike, up to the draft that a challenge shows. `HFSampler` reads equal prompts once; here
equal beginnings are read once too. That holds for a base whose layers all have full attention, with no window and no
state. Decoding over a padded batch, transformers copies keys and values for every head of queries that shares them;
here heads share them in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agon.engine.hf import sampler as hf

Ids = tuple[int, ...]
GROUPED = "grouped_heads"


class SharedPrefixSampler(hf.HFSampler):
    """An `HFSampler` that reads equal beginnings of prompts once."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._model.set_attn_implementation(GROUPED)

    def _read(self, prompts: Sequence[Ids]) -> Any:
        """The cache of all beginnings, and of all but the last token where prompts repeat."""
        ids, mask = self._left_padded(prompts)
        stages = [([prompt[: (shared := shared_length(prompts))] for prompt in prompts], shared)]
        stages.append((list(prompts), ids.shape[1] - 1))
        cache, owner = None, list[int]()
        for keys, end in stages:
            place = {key: n for n, key in enumerate(dict.fromkeys(keys))}
            if end < 1 or len(place) == len(prompts):
                continue
            first = [keys.index(key) for key in place]
            if cache is not None:
                cache.reorder_cache(torch.tensor([owner[row] for row in first]))
            cache = self._model.generate(
                ids[first, :end],
                attention_mask=mask[first, :end],
                past_key_values=cache,
                max_new_tokens=1,
                return_dict_in_generate=True,
            ).past_key_values
            owner = [place[key] for key in keys]
        if cache is not None:
            cache.reorder_cache(torch.tensor(owner))
        return cache

    def _left_padded(self, prompts: Sequence[Ids]) -> tuple[Any, Any]:
        """Ids and attention mask of prompts that end together; padding is after what they share."""
        shared, width, pad = shared_length(prompts), max(map(len, prompts)), min(self.renderer.stop)
        gaps = [width - len(prompt) for prompt in prompts]
        rows = list(zip(prompts, gaps, strict=True))
        ids = torch.tensor([[*prompt[:shared], *[pad] * gap, *prompt[shared:]] for prompt, gap in rows])
        mask = torch.tensor([[1] * shared + [0] * gap + [1] * (len(prompt) - shared) for prompt, gap in rows])
        return ids, mask


def shared_length(prompts: Sequence[Ids]) -> int:
    """The length of beginnings that, each distinct one read once, leaves the fewest tokens to read."""
    distinct = set(prompts)

    def tokens(length: int) -> int:
        return length * (len({prompt[:length] for prompt in distinct}) - len(distinct))

    return min(range(min(map(len, prompts))), key=tokens)


def attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **more: Any
) -> tuple[torch.Tensor, None]:
    """Attention of one new token: heads that share keys are rows of one query; anything else as transformers does."""
    if query.size(2) > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **more)
    rows, heads, _, width = query.shape
    grouped = query.reshape(rows, key.size(1), -1, width)
    done = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=more.get("scaling"))
    return done.reshape(rows, 1, heads, width), None


def install() -> None:
    """From now on, what this process builds for engine `hf` is a sampler of this kind."""
    hf.HFSampler = SharedPrefixSampler  # type: ignore[misc]


AttentionInterface.register(GROUPED, attend)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
