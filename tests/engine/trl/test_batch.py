"""Streams become micro-batches without losing, doubling or favouring a row."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.engine.synthetic import rollout, stream
from agon.engine.trl.batch import (
    BatchRow,
    GatherRows,
    deal,
    micro_batches,
    policy_batches,
    portion_of,
    rows_of,
    tensors,
)
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Stream

from .helpers import masked, rows


def beside(*others: Sequence[Stream]) -> GatherRows:
    """Other processes, with ranks after ours, that played these streams."""
    theirs = [{policy: portion_of(rows) for policy, rows in rows_of(streams).items()} for streams in others]
    return lambda mine: [mine, *theirs]


def row(length: int) -> BatchRow:
    return BatchRow.of(Tokens((1,), (1,) * length), 1.0)


def group(policy: Policy, *lengths: int) -> list[Stream]:
    return [stream(policy, [[rollout(policy, n, Tokens((1,), (1,) * n), 1.0) for n in lengths]])]


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 30)), limit=st.integers(1, 60))
def test_micro_batches_keep_every_row_and_their_limit(lengths: list[int], limit: int) -> None:
    mine = [row(length) for length in lengths]
    parts = micro_batches(mine, limit)
    assert [r for part in parts for r in part] == mine
    assert all(sum(r.size for r in part) <= limit or len(part) == 1 for part in parts)
    assert all(sum(r.size for r in part) + following[0].size > limit for part, following in pairwise(parts))


def test_two_streams_of_one_policy_are_one_batch() -> None:
    streams = [stream(Policy.A, [rows(Policy.A, name)], name) for name in ("standalone", "competitive")]
    assert [len(found) for found in rows_of(streams).values()] == [8, 0]
    (batch,) = policy_batches(streams, 16)
    assert (batch.policy, batch.rows, batch.live) == (Policy.A, 8, 8)
    assert batch.tokens == sum(len(r.completion.tokens.completion_ids) for s in streams for r in s.rollouts())


def test_masked_rows_are_counted_but_never_computed() -> None:
    group = rows(Policy.B, 0)
    (batch,) = policy_batches([stream(Policy.B, [group, masked(group)])], 1000)
    assert (batch.rows, batch.live, len(batch.micro_batches)) == (8, 4, 1)
    assert all(r.advantage is not None for r in batch.micro_batches[0])


def test_a_policy_without_a_live_row_has_no_micro_batch() -> None:
    (batch,) = policy_batches([stream(Policy.B, [masked(rows(Policy.B, 0))])], 4)
    assert (batch.live, batch.tokens, batch.micro_batches) == (0, 0, ())


def test_a_process_without_live_rows_computes_nothing_and_counts_the_others() -> None:
    dead, live = [stream(Policy.A, [masked(rows(Policy.A, 0))])], group(Policy.A, 9)
    mine, theirs = policy_batches(dead, 4, beside(live)), policy_batches(live, 4, beside(dead), rank=1)
    assert [(batch.rows, batch.live, batch.tokens) for batch in (*mine, *theirs)] == [(5, 1, 9)] * 2
    assert sorted(len(batch.micro_batches) for batch in (*mine, *theirs)) == [0, 1]


def test_where_passes_are_of_all_processes_fillers_make_their_numbers_equal() -> None:
    long, short = group(Policy.A, 90, 9, 9, 9), group(Policy.A, 8)
    first = policy_batches(long, 20, beside(short), even=True)
    second = policy_batches(short, 20, beside(long), rank=1, even=True)
    (one,), (two,) = first, second
    assert len(one.micro_batches) != len(two.micro_batches)
    assert len(one.micro_batches) + one.fillers == len(two.micro_batches) + two.fillers
    assert min(one.fillers, two.fillers) == 0
    assert all(batch.fillers == 0 for batch in policy_batches(long, 20, beside(short)))


def test_a_policy_that_only_another_process_played_is_counted_here() -> None:
    mine = policy_batches(group(Policy.A, 3), 100, beside(group(Policy.B, 5, 5)))
    assert [(batch.policy, batch.rows, batch.tokens) for batch in mine] == [(Policy.A, 1, 3), (Policy.B, 2, 10)]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.sampled_from(Policy), st.lists(st.integers(1, 400), max_size=12)), min_size=1, max_size=8
    )
)
def test_rows_are_dealt_by_tokens_once_each(lengths: list[tuple[Policy, list[int]]]) -> None:
    """No process has more than the others but for one row: the greedy bound."""
    everyone = [
        {p: portion_of(rows_of(group(p, *(sizes if p is policy else ())))[p]) for p in Policy}
        for policy, sizes in lengths
    ]
    hands = deal(everyone)
    dealt = [(policy, id(r)) for hand in hands for policy in Policy for r in hand[policy]]
    given_rows = [(policy, id(r)) for each in everyone for policy in Policy for r in each[policy].live]
    assert sorted(dealt, key=str) == sorted(given_rows, key=str)
    tokens = [sum(r.size for policy in Policy for r in hand[policy]) for hand in hands]
    longest = max((r.size for each in everyone for policy in Policy for r in each[policy].live), default=0)
    assert max(tokens) - min(tokens) <= longest


def test_a_process_with_longer_completions_hands_rows_over() -> None:
    long, short = group(Policy.A, 90, 80, 70, 60), group(Policy.A, 10, 10, 10, 10)
    mine, theirs = policy_batches(long, 1000, beside(short)), policy_batches(short, 1000, beside(long), rank=1)
    held = [sum(r.size for part in batch.micro_batches for r in part) for batch in (*mine, *theirs)]
    assert sum(held) == 348
    assert max(held) <= 182


def test_what_is_sent_between_processes_is_arrays() -> None:
    """Python numbers would take several times the bytes and the time."""
    sent = pickle.dumps(BatchRow.of(Tokens((1,) * 100, (2,) * 10_000, (-0.5,) * 10_000), 1.0))
    assert len(sent) < 8 * 10_100 + 4 * 10_000 + 1000
    assert pickle.loads(sent).completion.tolist() == [2] * 10_000  # noqa: S301 - our own bytes


def test_rows_of_similar_length_share_a_micro_batch_longest_first() -> None:
    rollouts = [rollout(Policy.A, n, Tokens((1,), (1,) * n), 1.0) for n in (3, 9, 1, 7)]
    (batch,) = policy_batches([stream(Policy.A, [rollouts])], 12)
    assert [[r.live_tokens for r in part] for part in batch.micro_batches] == [[9], [7, 3], [1]]


def test_prompts_are_padded_on_the_left_and_completions_on_the_right() -> None:
    made = tensors([BatchRow.of(Tokens((5, 6), (7,), (-0.5,)), 2.0), BatchRow.of(Tokens((5,), (7, 8, 9)), None)], pad=0)
    assert made["prompt_ids"].tolist() == [[5, 6], [0, 5]]
    assert made["prompt_mask"].tolist() == [[1, 1], [0, 1]]
    assert made["completion_ids"].tolist() == [[7, 0, 0], [7, 8, 9]]
    assert made["completion_mask"].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert made["advantages"].tolist() == [2.0, 0.0]
    logps = made["sampling_per_token_logps"]
    assert logps[0, 0] == -0.5
    assert torch.isnan(logps).sum() == 5


def test_tool_results_are_attended_to_and_not_counted() -> None:
    turns = BatchRow.of(Tokens((5,), (7, 8, 9), (-0.5, math.nan, -0.1), (True, False, True)), 1.0)
    plain = BatchRow.of(Tokens((5,), (7,), (-0.5,)), 1.0)
    made = tensors([turns, plain], pad=0)
    assert turns.live_tokens == 2
    assert made["completion_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert made["tool_mask"].tolist() == [[1, 0, 1], [1, 1, 1]]
    assert torch.isnan(made["sampling_per_token_logps"][0]).tolist() == [False, True, False]
    assert "tool_mask" not in tensors([plain], pad=0)


def test_no_micro_batch_is_one_column_wide() -> None:
    masked_row = BatchRow.of(Tokens((0,), (0,)), advantage=None)
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


def test_marks_of_sampled_tokens_that_do_not_match_them_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2, 3), None, (True,)), 1.0)]
    with pytest.raises(EngineError, match="1 marks of sampled tokens for 2 tokens"):
        rows_of([stream(Policy.A, [group])])
