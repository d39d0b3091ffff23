"""From streams to micro-batches: which rows a policy learns from, where each is computed, and over which denominators.

A row without an advantage (a dead group, an unknown reward) is masked: it is in no denominator and in no KL term, and
it is not computed. Counts are global: processes with different numbers of live rows divide by the same totals. Live
rows are dealt to processes by their tokens, so that none waits for another whose completions happened to be longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from agon.engine.trl.pack import cut_by_tokens
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Rollout, Stream


@dataclass(frozen=True, slots=True, eq=False)
class BatchRow:
    """The tokens of one rollout and its advantage; None masks the row."""

    prompt: NDArray[np.int64]
    completion: NDArray[np.int64]
    logprobs: NDArray[np.float32] | None
    advantage: float | None
    sampled: NDArray[np.bool_] | None = None
    """Which completion tokens the policy drew, where it did not draw all."""

    @classmethod
    def of(cls, tokens: Tokens, advantage: float | None) -> BatchRow:
        logprobs = None if tokens.logprobs is None else np.array(tokens.logprobs, np.float32)
        sampled = None if tokens.sampled is None else np.array(tokens.sampled, np.bool_)
        prompt, completion = np.array(tokens.prompt_ids, np.int64), np.array(tokens.completion_ids, np.int64)
        return cls(prompt, completion, logprobs, advantage, sampled)

    @property
    def size(self) -> int:
        """How many ids there are, of the prompt and of the completion."""
        return len(self.prompt) + len(self.completion)

    @property
    def live_tokens(self) -> int:
        """Completion tokens that the loss counts."""
        if self.advantage is None:
            return 0
        return len(self.completion) if self.sampled is None else int(self.sampled.sum())


FILLER = Tokens((0,), (0, 0))
"""What a process computes that only takes part in a pass of others."""
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
    fillers: int = 0
    """Passes that count for nothing: with them all processes run equally many, where `even` asks for it."""


@dataclass(frozen=True, slots=True)
class Portion:
    """What a process played for one policy: all rows counted, live ones whole."""

    rows: int
    live: list[BatchRow]


Portions = dict[Policy, Portion]
GatherRows = Callable[[Portions], list[Portions]]
"""Takes what this process played, returns what each process played, in the order of their ranks."""


def alone_here(portions: Portions) -> list[Portions]:
    """The `GatherRows` of one process."""
    return [portions]


def policy_batches(
    streams: Iterable[Stream], limit: int, gather: GatherRows = alone_here, rank: int = 0, *, even: bool = False
) -> list[PolicyBatch]:
    """Merge streams by policy, deal live rows to processes, and cut this one's into parts of at most `limit` tokens."""
    everyone = gather({policy: portion_of(rows) for policy, rows in rows_of(streams).items()})
    hands = deal(everyone)
    batches = []
    for policy in Policy:
        rows, live = (
            sum(each[policy].rows for each in everyone),
            [row for each in everyone for row in each[policy].live],
        )
        if rows:
            tokens = sum(row.live_tokens for row in live)
            parts = [micro_batches(hand[policy], limit) for hand in hands]
            fillers = max(map(len, parts)) - len(parts[rank]) if even else 0
            batches.append(PolicyBatch(policy, parts[rank], rows, len(live), tokens, fillers))
    return batches


def portion_of(rows: Sequence[BatchRow]) -> Portion:
    return Portion(len(rows), [row for row in rows if row.advantage is not None])


def deal(everyone: Sequence[Portions]) -> list[dict[Policy, list[BatchRow]]]:
    """Rows for each process, longest first: each goes to the process that has the fewest tokens so far.

    Rows of similar length then share a micro-batch, whose loss is padded; a step too large for memory fails at once.
    """
    hands = [{policy: list[BatchRow]() for policy in Policy} for _ in everyone]
    held = [0] * len(everyone)
    rows = [(policy, row) for portions in everyone for policy in Policy for row in portions[policy].live]
    for policy, row in sorted(rows, key=lambda pair: -pair[1].size):
        least = held.index(min(held))
        hands[least][policy].append(row)
        held[least] += row.size
    return hands


def rows_of(streams: Iterable[Stream]) -> dict[Policy, list[BatchRow]]:
    """Rows by policy: two streams of one policy are one batch."""
    rows: dict[Policy, list[BatchRow]] = {policy: [] for policy in Policy}
    for stream in streams:
        rows[stream.policy] += map(_row, stream.rollouts())
    return rows


def micro_batches(live: Sequence[BatchRow], limit: int) -> tuple[tuple[BatchRow, ...], ...]:
    """Micro-batches of at most `limit` tokens, or of one row that has more."""
    return tuple(map(tuple, cut_by_tokens(live, [row.size for row in live], limit)))


def tensors(rows: Sequence[BatchRow], pad: int) -> dict[str, torch.Tensor]:
    """One micro-batch as TRL expects it: prompts padded on the left, completions on the right, masked rows masked."""
    size = len(rows)
    prompt = max(len(row.prompt) for row in rows)
    width = max(WIDTH, *(len(row.completion) for row in rows))
    ids, mask = np.full((size, prompt), pad, np.int64), np.zeros((size, prompt), np.int64)
    completions, counted = np.full((size, width), pad, np.int64), np.zeros((size, width), np.int64)
    logprobs = np.full((size, width), math.nan, np.float32)  # NaN where the sampler gave none: it is not corrected
    for n, row in enumerate(rows):
        ids[n, prompt - len(row.prompt) :], mask[n, prompt - len(row.prompt) :] = row.prompt, 1
        completions[n, : len(row.completion)] = row.completion
        counted[n, : len(row.completion)] = row.advantage is not None
        if row.logprobs is not None:
            logprobs[n, : len(row.logprobs)] = row.logprobs
    arrays: dict[str, NDArray[np.generic]] = {
        "prompt_ids": ids,
        "prompt_mask": mask,
        "completion_ids": completions,
        "completion_mask": counted,
        "advantages": np.array([row.advantage or 0.0 for row in rows], np.float32),
        "sampling_per_token_logps": logprobs,
    }
    if any(row.sampled is not None for row in rows):
        # TRL's own name: such tokens are attended to, and are in no loss and in no denominator
        arrays["tool_mask"] = drawn = np.ones((size, width), np.int64)
        for n, row in enumerate(rows):
            if row.sampled is not None:
                drawn[n, : len(row.sampled)] = row.sampled
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


def _row(rollout: Rollout) -> BatchRow:
    tokens = rollout.completion.tokens
    if not isinstance(tokens, Tokens):
        raise EngineError(
            f"a completion of {rollout.completion.version} carries no token ids",
            fix="train with a sampler that returns Tokens: vllm or hf",
        )
    for name, values in (("log-probabilities", tokens.logprobs), ("marks of sampled tokens", tokens.sampled)):
        if values is not None and len(values) != len(tokens.completion_ids):
            counts = f"{len(values)} {name} for {len(tokens.completion_ids)} tokens"
            raise EngineError(
                f"{counts} of a completion of {rollout.completion.version}",
                fix="the sampler must score every token it returns; report this with its name and version",
            )
    return BatchRow.of(tokens, rollout.advantage)
