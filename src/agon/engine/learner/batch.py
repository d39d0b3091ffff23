"""From streams to passes: which rows a policy learns from, and which of them go through the base together.

A row without an advantage (a dead group, an unknown reward) is masked: it is in no denominator and in no KL term, and
it is not computed. The rows of a pass lie one after the other in one sequence: nothing is padded, no mask is needed
(`attention.py`), and only scored positions reach the head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from agon.engine.learner.fused_head import IGNORED
from agon.engine.learner.loss import Scored, Shares
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Rollout, Stream

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The tokens of one rollout, what it was paid, and which engine drew it."""

    prompt: NDArray[np.int64]
    completion: NDArray[np.int64]
    advantage: float | None
    """None masks the row."""
    logprobs: NDArray[np.float32]
    """The sampler's, of the completion; NaN where it gave none."""
    sampled: NDArray[np.bool_]
    """Which completion tokens the policy drew."""
    engine: str = ""

    @classmethod
    def of(cls, tokens: Tokens, advantage: float | None, engine: str = "") -> Row:
        length = len(tokens.completion_ids)
        logprobs = np.array(tokens.logprobs or (math.nan,) * length, np.float32)
        sampled = np.array((True,) * length if tokens.sampled is None else tokens.sampled, np.bool_)
        prompt, completion = np.array(tokens.prompt_ids, np.int64), np.array(tokens.completion_ids, np.int64)
        return cls(prompt, completion, advantage, logprobs, sampled, engine)

    @property
    def size(self) -> int:
        """How many ids there are, of the prompt and of the completion."""
        return len(self.prompt) + len(self.completion)


@dataclass(frozen=True, slots=True)
class PolicyBatch:
    """What one policy learns from in one step."""

    policy: Policy
    passes: tuple[tuple[Row, ...], ...]
    rows: int
    """All of them, masked ones too."""
    live: Shares


def policy_batches(streams: Iterable[Stream], limit: int) -> list[PolicyBatch]:
    """Two streams of one policy are one batch. Its live rows go in passes of at most `limit` tokens, longest first: a
    step that is too large for memory fails at once."""
    rows: dict[Policy, list[Row]] = {policy: [] for policy in Policy}
    for stream in streams:
        rows[stream.policy] += map(row_of, stream.rollouts())
    batches = []
    for policy, every in rows.items():
        if every:
            live = sorted((row for row in every if row.advantage is not None), key=lambda row: -row.size)
            shares = Shares(len(live), sum(int(row.sampled.sum()) for row in live))
            batches.append(PolicyBatch(policy, cut_by_tokens(live, limit), len(every), shares))
    return batches


def row_of(rollout: Rollout) -> Row:
    """A rollout's row; EngineError where its engine did not say what it drew."""
    tokens, version = rollout.completion.tokens, rollout.completion.version
    if not isinstance(tokens, Tokens):
        fix = "train with a sampler that returns Tokens: vllm or hf"
        raise EngineError(f"a completion of {version} carries no token ids", fix=fix)
    for name, values in (("log-probabilities", tokens.logprobs), ("marks of sampled tokens", tokens.sampled)):
        if values is not None and len(values) != len(tokens.completion_ids):
            raise EngineError(
                f"{len(values)} {name} for {len(tokens.completion_ids)} tokens of a completion of {version}",
                fix="the sampler must score every token it returns; report this with its name and version",
            )
    return Row.of(tokens, rollout.advantage, rollout.completion.engine)


def cut_by_tokens(rows: Sequence[Row], limit: int) -> tuple[tuple[Row, ...], ...]:
    """Rows in their order, cut where the next one would exceed the limit; a larger one goes alone."""
    parts, used = list[list[Row]](), 0
    for row in rows:
        if not parts or used + row.size > limit:
            parts.append([])
            used = 0
        parts[-1].append(row)
        used += row.size
    return tuple(map(tuple, parts))


@dataclass(frozen=True, slots=True)
class Pack:
    """The rows of a pass as one sequence. Where its length must be a multiple of something it ends in a filler."""

    ids: torch.Tensor
    positions: torch.Tensor
    lengths: tuple[int, ...]
    labels: torch.Tensor
    """The tokens to score, then fillers."""
    sources: torch.Tensor
    """The position before each of them, whose hidden state predicts it."""
    scored: Scored

    @classmethod
    def of(cls, rows: Sequence[Row], device: torch.device, multiple: int = 1) -> Pack:
        if not all(len(row.prompt) for row in rows):
            raise EngineError("a completion has no prompt", fix="report this with the prompt's template")
        lengths = [row.size for row in rows]
        counts = [len(row.completion) for row in rows]
        ends = zip(accumulate(lengths), counts, strict=True)
        sources = [end - count - 1 + np.arange(count) for end, count in ends]

        def joined(parts: Iterable[NDArray[Any]]) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(list(parts))).to(device)

        def each(values: Sequence[Any], kind: Any) -> torch.Tensor:
            """A value of a row, for each of its scored tokens."""
            return torch.from_numpy(np.repeat(np.array(values, kind), counts)).to(device)

        filler, spare = -sum(lengths) % multiple, -sum(counts) % multiple
        if filler:
            lengths.append(filler)
        return cls(
            ids=pad(joined(part for row in rows for part in (row.prompt, row.completion)), (0, filler))[None],
            positions=joined(np.arange(length) for length in lengths)[None],
            lengths=tuple(lengths),
            labels=pad(joined(row.completion for row in rows), (0, spare), value=IGNORED)[None],
            sources=pad(joined(sources), (0, spare)),
            scored=Scored(
                rows=len(rows),
                row=each(range(len(rows)), np.int64),
                advantage=each([row.advantage or 0.0 for row in rows], np.float32),
                then=joined(row.logprobs for row in rows),
                counts=joined(row.sampled.astype(np.float32) for row in rows),
            ),
        )

    def arguments(self) -> dict[str, Any]:
        """What a forward pass takes; where rows end is said to `attention.py` and to kernels for variable lengths."""
        ends = torch.tensor([0, *accumulate(self.lengths)], dtype=torch.int32, device=self.ids.device)
        longest = max(self.lengths)
        return {
            **{"input_ids": self.ids, "position_ids": self.positions, "shift_labels": self.labels},
            **{"rows": list(self.lengths), "cu_seq_lens_q": ends, "cu_seq_lens_k": ends},
            **{"max_length_q": longest, "max_length_k": longest},
        }

    def by_row(self, values: torch.Tensor) -> list[list[float]]:
        """Values of the scored tokens, row by row."""
        sizes = torch.bincount(self.scored.row, minlength=self.scored.rows).tolist()
        return [part.tolist() for part in values.split(sizes)]

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
