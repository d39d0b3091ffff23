"""Streams become micro-batches without losing, doubling or favouring a row."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.engine.synthetic import rollout, stream
from agon.engine.trl.batch import BatchRow, micro_batches, policy_batches, rows_of, tensors
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy

from .helpers import masked, rows


def alone(vector: torch.Tensor) -> torch.Tensor:
    return vector[None]


def beside(other: list[int]) -> object:
    """A second process that counted `other`."""
    return lambda vector: torch.stack([vector, torch.tensor(other[: len(vector)])])


def row(length: int) -> BatchRow:
    return BatchRow(Tokens((1,), (1,) * length), 1.0)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 30)), limit=st.integers(1, 60))
def test_micro_batches_keep_every_row_and_their_limit(lengths: list[int], limit: int) -> None:
    mine = [row(length) for length in lengths]
    parts = micro_batches(mine, limit)
    assert [r for part in parts for r in part] == mine
    assert all(sum(r.tokens.size for r in part) <= limit or len(part) == 1 for part in parts)
    assert all(
        sum(r.tokens.size for r in part) + following[0].tokens.size > limit for part, following in pairwise(parts)
    )


def test_two_streams_of_one_policy_are_one_batch() -> None:
    streams = [stream(Policy.A, [rows(Policy.A, name)], name) for name in ("standalone", "competitive")]
    assert [len(found) for found in rows_of(streams).values()] == [8, 0]
    (batch,) = policy_batches(streams, 16, alone)
    assert (batch.policy, batch.rows, batch.live) == (Policy.A, 8, 8)
    assert batch.tokens == sum(len(r.completion.tokens.completion_ids) for s in streams for r in s.rollouts())


def test_masked_rows_are_counted_but_never_computed() -> None:
    group = rows(Policy.B, 0)
    (batch,) = policy_batches([stream(Policy.B, [group, masked(group)])], 1000, alone)
    assert (batch.rows, batch.live, len(batch.micro_batches)) == (8, 4, 1)
    assert all(r.advantage is not None for r in batch.micro_batches[0])


def test_a_policy_without_a_live_row_has_no_micro_batch() -> None:
    (batch,) = policy_batches([stream(Policy.B, [masked(rows(Policy.B, 0))])], 4, alone)
    assert (batch.live, batch.tokens, batch.micro_batches) == (0, 0, ())


def test_a_process_without_live_rows_computes_nothing_and_counts_the_others() -> None:
    dead = stream(Policy.A, [masked(rows(Policy.A, 0))])
    (batch,) = policy_batches([dead], 4, beside([8, 7, 50, 0, 0, 0]))  # type: ignore[arg-type]
    assert batch.micro_batches == ()
    assert (batch.rows, batch.live, batch.tokens) == (12, 7, 50)


def test_rows_of_similar_length_share_a_micro_batch_longest_first() -> None:
    rollouts = [rollout(Policy.A, n, Tokens((1,), (1,) * n), 1.0) for n in (3, 9, 1, 7)]
    (batch,) = policy_batches([stream(Policy.A, [rollouts])], 12, alone)
    assert [[r.live_tokens for r in part] for part in batch.micro_batches] == [[9], [7, 3], [1]]


def test_prompts_are_padded_on_the_left_and_completions_on_the_right() -> None:
    made = tensors([BatchRow(Tokens((5, 6), (7,), (-0.5,)), 2.0), BatchRow(Tokens((5,), (7, 8, 9)), None)], pad=0)
    assert made["prompt_ids"].tolist() == [[5, 6], [0, 5]]
    assert made["prompt_mask"].tolist() == [[1, 1], [0, 1]]
    assert made["completion_ids"].tolist() == [[7, 0, 0], [7, 8, 9]]
    assert made["completion_mask"].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert made["advantages"].tolist() == [2.0, 0.0]
    logps = made["sampling_per_token_logps"]
    assert logps[0, 0] == -0.5
    assert torch.isnan(logps).sum() == 5


def test_no_micro_batch_is_one_column_wide() -> None:
    masked_row = BatchRow(Tokens((0,), (0,)), advantage=None)
    assert tensors([masked_row], pad=0)["completion_mask"].tolist() == [[0, 0]]


def test_completions_without_tokens_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2,)), 1.0)]
    object.__setattr__(group[0].completion, "tokens", None)
    with pytest.raises(EngineError, match="carries no token ids"):
        rows_of([stream(Policy.A, [group])])


def test_log_probabilities_that_do_not_match_their_tokens_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2, 3), (-1.0,)), 1.0)]
    with pytest.raises(EngineError, match="1 log-probabilities for 2 tokens"):
        rows_of([stream(Policy.A, [group])])
