"""From streams to micro-batches: which rows a policy learns from, in what portions, and over which denominators.

A row without an advantage (a dead group, an unknown reward) is masked: it is in no denominator and in no KL term. Only
live rows are worth a forward pass, so masked rows are kept where they are needed, as fillers of one token that give
every process the same number of equal micro-batches. Counts are global: processes with different numbers of live rows
divide by the same totals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Rollout, Stream


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids of one rollout, the sampler's log-probabilities if it gave any, and the advantage (None: masked)."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    advantage: float | None


WIDTH = 2
"""The narrowest micro-batch: TRL 1.16 takes one column to mean one value per sequence, and would count masked rows."""
MULTIPLE = 32
"""Widths of micro-batches in half precision are multiples of this: few widths, and even ones. On CPUs oneDNN compiles
kernels for every width it meets and keeps them, so that memory would grow with every new length; GPUs like it too."""

FILLER = Row(prompt=(0,), completion=(0,), logprobs=None, advantage=None)


@dataclass(frozen=True, slots=True)
class Share:
    """What one policy learns from in one step. `live`, `tokens` and `rows` count all processes."""

    policy: Policy
    portions: tuple[tuple[Row, ...], ...]
    rows: int
    live: int
    tokens: int

    @property
    def size(self) -> int:
        """Rows in each micro-batch, fillers included."""
        return len(self.portions[0]) if self.portions else 0


Gather = Callable[[torch.Tensor], torch.Tensor]
"""Takes a vector, gives the vectors of all processes stacked."""


def shares(streams: Iterable[Stream], micro_batch: int, gather: Gather) -> list[Share]:
    """Merge streams by policy and cut each policy's live rows into micro-batches, equal in number on every process."""
    rows = rows_of(streams)
    live = {policy: _longest_first(row for row in rows[policy] if row.advantage is not None) for policy in Policy}
    local = [[len(rows[p]), len(live[p]), sum(len(row.completion) for row in live[p])] for p in Policy]
    world = gather(torch.tensor(local, dtype=torch.int64).flatten()).view(-1, len(Policy), 3)
    total, most = world.sum(0).tolist(), world.amax(0).tolist()
    return [
        Share(policy, portions(live[policy], most[i][1], micro_batch), *total[i])
        for i, policy in enumerate(Policy)
        if total[i][0]
    ]


def rows_of(streams: Iterable[Stream]) -> dict[Policy, list[Row]]:
    """Rows by policy: two streams of one policy are one batch."""
    rows: dict[Policy, list[Row]] = {policy: [] for policy in Policy}
    for stream in streams:
        for rollout in stream.rollouts():
            rows[stream.policy].append(_row(rollout))
    return rows


def portions(live: Sequence[Row], most: int, micro_batch: int) -> tuple[tuple[Row, ...], ...]:
    """Cut into as few equal portions of at most `micro_batch` rows as `most` rows need, filled up with fillers."""
    count = math.ceil(most / micro_batch)
    size = math.ceil(most / count) if count else 0
    filled = [*live, *[FILLER] * (count * size - len(live))]
    return tuple(tuple(filled[i * size : (i + 1) * size]) for i in range(count))


def tensors(rows: Sequence[Row], pad: int, multiple: int = 1) -> dict[str, torch.Tensor]:
    """One micro-batch as TRL expects it: prompts padded on the left, completions on the right, masked rows masked."""
    longest = max(len(row.prompt) for row in rows), max(WIDTH, *(len(row.completion) for row in rows))
    width = [math.ceil(tokens / multiple) * multiple for tokens in longest]
    counts = [len(row.completion) if row.advantage is not None else 0 for row in rows]
    return {
        "prompt_ids": torch.tensor([_left(row.prompt, width[0], pad) for row in rows]),
        "prompt_mask": torch.tensor([_left((1,) * len(row.prompt), width[0], 0) for row in rows]),
        "completion_ids": torch.tensor([_right(row.completion, width[1], pad) for row in rows]),
        "completion_mask": torch.tensor([_right((1,) * count, width[1], 0) for count in counts]),
        "advantages": torch.tensor([row.advantage or 0.0 for row in rows], dtype=torch.float32),
        "sampling_per_token_logps": torch.tensor([_logprobs(row, width[1]) for row in rows], dtype=torch.float32),
    }


def _row(rollout: Rollout) -> Row:
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
    return Row(tokens.prompt_ids, tokens.completion_ids, tokens.logprobs, rollout.advantage)


def _longest_first(rows: Iterable[Row]) -> list[Row]:
    """Rows of like length share a micro-batch, so little is padding; a step too large for memory fails at once."""
    return sorted(rows, key=lambda row: -(len(row.prompt) + len(row.completion)))


def _logprobs(row: Row, width: int) -> list[float]:
    """NaN where the sampler gave none: such a token is not corrected."""
    known = row.logprobs if row.logprobs is not None else ()
    return [*known, *[math.nan] * (width - len(known))]


def _left(values: tuple[int, ...], width: int, pad: int) -> list[int]:
    return [pad] * (width - len(values)) + list(values)


def _right(values: tuple[int, ...], width: int, pad: int) -> list[int]:
    return list(values) + [pad] * (width - len(values))
