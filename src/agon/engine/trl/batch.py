"""From streams to micro-batches: which rows a policy learns from, how they are grouped, and over which denominators.

A row without an advantage (a dead group, an unknown reward) is masked: it is in no denominator and in no KL term, and
it is not computed. Counts are global: processes with different numbers of live rows divide by the same totals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from agon.engine.trl.pack import cut_by_tokens
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Rollout, Stream


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The tokens of one rollout and its advantage; None masks the row."""

    tokens: Tokens
    advantage: float | None

    @property
    def live_tokens(self) -> int:
        """Completion tokens that the loss counts."""
        return len(self.tokens.completion_ids) if self.advantage is not None else 0


WIDTH = 2
"""The narrowest micro-batch: TRL 1.16 takes one column to mean one value per sequence, and would count masked rows."""


@dataclass(frozen=True, slots=True)
class PolicyBatch:
    """What one policy learns from in one step: micro-batches of this process; the counts are of all processes."""

    policy: Policy
    micro_batches: tuple[tuple[BatchRow, ...], ...]
    rows: int
    live: int
    tokens: int


Gather = Callable[[torch.Tensor], torch.Tensor]
"""Takes a vector, returns the vectors of all processes stacked."""


def policy_batches(streams: Iterable[Stream], limit: int, gather: Gather) -> list[PolicyBatch]:
    """Merge streams by policy and cut each policy's live rows into micro-batches of at most `limit` tokens."""
    rows = rows_of(streams)
    live = {policy: _longest_first(row for row in rows[policy] if row.advantage is not None) for policy in Policy}
    local = [[len(rows[p]), len(live[p]), sum(row.live_tokens for row in live[p])] for p in Policy]
    total = gather(torch.tensor(local, dtype=torch.int64).flatten()).view(-1, len(Policy), 3).sum(0).tolist()
    return [
        PolicyBatch(policy, micro_batches(live[policy], limit), *total[i])
        for i, policy in enumerate(Policy)
        if total[i][0]
    ]


def rows_of(streams: Iterable[Stream]) -> dict[Policy, list[BatchRow]]:
    """Rows by policy: two streams of one policy are one batch."""
    rows: dict[Policy, list[BatchRow]] = {policy: [] for policy in Policy}
    for stream in streams:
        rows[stream.policy] += map(_row, stream.rollouts())
    return rows


def micro_batches(live: Sequence[BatchRow], limit: int) -> tuple[tuple[BatchRow, ...], ...]:
    """Micro-batches of at most `limit` tokens, or of one row that has more."""
    return tuple(map(tuple, cut_by_tokens(live, [row.tokens.size for row in live], limit)))


def tensors(rows: Sequence[BatchRow], pad: int) -> dict[str, torch.Tensor]:
    """One micro-batch as TRL expects it: prompts padded on the left, completions on the right, masked rows masked."""
    prompts, completions = [row.tokens.prompt_ids for row in rows], [row.tokens.completion_ids for row in rows]
    width = max(map(len, prompts)), max(WIDTH, *map(len, completions))
    return {
        "prompt_ids": torch.tensor([_left(ids, width[0], pad) for ids in prompts]),
        "prompt_mask": torch.tensor([_left((1,) * len(ids), width[0], 0) for ids in prompts]),
        "completion_ids": torch.tensor([_right(ids, width[1], pad) for ids in completions]),
        "completion_mask": torch.tensor([_right((1,) * row.live_tokens, width[1], 0) for row in rows]),
        "advantages": torch.tensor([row.advantage or 0.0 for row in rows], dtype=torch.float32),
        "sampling_per_token_logps": torch.tensor([_logprobs(row, width[1]) for row in rows], dtype=torch.float32),
    }


def _row(rollout: Rollout) -> BatchRow:
    tokens = rollout.completion.tokens
    if not isinstance(tokens, Tokens):
        raise EngineError(
            f"a completion of {rollout.completion.version} carries no token ids",
            fix="train with a sampler that returns Tokens: vllm or hf",
        )
    if tokens.logprobs is not None and len(tokens.logprobs) != len(tokens.completion_ids):
        counts = f"{len(tokens.logprobs)} log-probabilities for {len(tokens.completion_ids)} tokens"
        raise EngineError(
            f"{counts} of a completion of {rollout.completion.version}",
            fix="the sampler must score every token it returns; report this with its name and version",
        )
    return BatchRow(tokens, rollout.advantage)


def _longest_first(rows: Iterable[BatchRow]) -> list[BatchRow]:
    """Rows of similar length share a micro-batch, whose loss is padded; a step too large for memory fails at once."""
    return sorted(rows, key=lambda row: -row.tokens.size)


def _logprobs(row: BatchRow, width: int) -> list[float]:
    """NaN where the sampler gave none: such a token is not corrected."""
    known = row.tokens.logprobs or ()
    return [*known, *[math.nan] * (width - len(known))]


def _left(values: tuple[int, ...], width: int, pad: int) -> list[int]:
    return [pad] * (width - len(values)) + list(values)


def _right(values: tuple[int, ...], width: int, pad: int) -> list[int]:
    return list(values) + [pad] * (width - len(values))
