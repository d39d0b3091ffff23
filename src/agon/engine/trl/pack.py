"""Rows of a micro-batch as one sequence: no padding, no mask, and only scored positions reach the head.

TRL's loss wants tensors of [rows, columns] and gets them; only the forward pass in the middle is packed. Where lengths
must be a multiple of something, a pack ends in a filler row and its labels in ignored ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch.nn.functional import pad

from agon.errors import EngineError

Row = TypeVar("Row")
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Pack:
    """One sequence made of rows, and where its scored tokens belong in the padded batch."""

    ids: torch.Tensor
    positions: torch.Tensor
    labels: torch.Tensor
    """The tokens to score, and fillers."""
    sources: torch.Tensor
    """The position before each of them, whose hidden state predicts it."""
    lengths: tuple[int, ...]
    scored: torch.Tensor
    """The padded completions: whether a token is scored."""

    @classmethod
    def of(cls, ids: torch.Tensor, mask: torch.Tensor, columns: int, multiple: int = 1) -> Pack:
        """Pack a padded batch whose last `columns` columns are the completions."""
        real = mask.bool()
        scored = real.clone()
        scored[:, :-columns] = False
        packed, positions, wanted = ids[real], (mask.cumsum(1) - 1)[real], scored[real]
        if bool((positions[wanted] == 0).any()):
            raise EngineError("a completion has no prompt", fix="report this with the prompt's template")
        lengths = real.sum(1).tolist()
        if filler := -len(packed) % multiple:
            lengths.append(filler)
        sources, labels = wanted.nonzero().squeeze(1) - 1, packed[wanted]
        spare = -len(labels) % multiple
        return cls(
            ids=pad(packed, (0, filler))[None],
            positions=torch.cat([positions, torch.arange(filler, device=ids.device)])[None],
            labels=pad(labels, (0, spare), value=IGNORED)[None],
            sources=pad(sources, (0, spare)),
            lengths=tuple(lengths),
            scored=scored[:, -columns:],
        )

    def arguments(self) -> dict[str, Any]:
        """What a forward pass takes: where rows end is said as `agon_rows` and as variable-length kernels want it."""
        ends = torch.tensor([0, *accumulate(self.lengths)], dtype=torch.int32, device=self.ids.device)
        longest = max(self.lengths)
        return {
            **{"input_ids": self.ids, "position_ids": self.positions, "shift_labels": self.labels},
            **{"rows": list(self.lengths), "cu_seq_lens_q": ends, "cu_seq_lens_k": ends},
            **{"max_length_q": longest, "max_length_k": longest},
        }

    def unpack(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the scored tokens as [rows, columns], with zeros between them."""
        return values.new_zeros(self.scored.shape).masked_scatter(self.scored, values)

    @contextmanager
    def only_scored(self, backbone: Any) -> Iterator[None]:
        """Let the backbone return the hidden states that predict scored tokens, so that the head sees no others."""

        def cut(module: Any, args: Any, output: Any) -> Any:
            output.last_hidden_state = output.last_hidden_state[:, self.sources]
            return output

        hook = backbone.register_forward_hook(cut)
        try:
            yield
        finally:
            hook.remove()


def cut_by_tokens(rows: Sequence[Row], sizes: Sequence[int], limit: int) -> list[list[Row]]:
    """Rows in their order, cut where the next one would exceed the limit; a larger one goes alone."""
    parts, used = list[list[Row]](), 0
    for row, size in zip(rows, sizes, strict=True):
        if not parts or used + size > limit:
            parts.append([])
            used = 0
        parts[-1].append(row)
        used += size
    return parts
