"""Streams become passes without losing, doubling or favouring a row."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.engine.learner.batch import Pack, Row, cut_by_tokens, policy_batches
from agon.engine.learner.loss import Shares
from agon.engine.synthetic import rollout, stream
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Stream

from .helpers import masked, rows


def row(length: int) -> Row:
    return Row.of(Tokens((1,), (1,) * length), 1.0)


def group(policy: Policy, *lengths: int) -> list[Stream]:
    return [stream(policy, [[rollout(policy, n, Tokens((1,), (1,) * n), 1.0) for n in lengths]])]


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 30)), limit=st.integers(1, 60))
def test_passes_keep_every_row_and_their_limit(lengths: list[int], limit: int) -> None:
    mine = [row(length) for length in lengths]
    parts = cut_by_tokens(mine, limit)
    assert [r for part in parts for r in part] == mine
    assert all(sum(r.size for r in part) <= limit or len(part) == 1 for part in parts)
    assert all(sum(r.size for r in part) + following[0].size > limit for part, following in pairwise(parts))


def test_two_streams_of_one_policy_are_one_batch() -> None:
    streams = [stream(Policy.A, [rows(Policy.A, name)], name) for name in ("standalone", "competitive")]
    (batch,) = policy_batches(streams, 16)
    tokens = sum(len(r.completion.tokens.completion_ids) for s in streams for r in s.rollouts())
    assert (batch.policy, batch.rows, batch.live) == (Policy.A, 8, Shares(8, tokens))


def test_masked_rows_are_counted_but_never_computed() -> None:
    group = rows(Policy.B, 0)
    (batch,) = policy_batches([stream(Policy.B, [group, masked(group)])], 1000)
    assert (batch.rows, batch.live.rows, len(batch.passes)) == (8, 4, 1)
    assert all(r.advantage is not None for r in batch.passes[0])


def test_a_policy_without_a_live_row_has_no_pass() -> None:
    (batch,) = policy_batches([stream(Policy.B, [masked(rows(Policy.B, 0))])], 4)
    assert (batch.live, batch.passes) == (Shares(0, 0), ())


def test_the_longest_rows_go_first() -> None:
    rollouts = [rollout(Policy.A, n, Tokens((1,), (1,) * n), 1.0) for n in (3, 9, 1, 7)]
    (batch,) = policy_batches([stream(Policy.A, [rollouts])], 12)
    assert [[len(r.completion) for r in part] for part in batch.passes] == [[9], [7, 3], [1]]


def test_what_a_policy_read_and_did_not_draw_counts_nowhere() -> None:
    turns = rollout(Policy.A, 0, Tokens((5,), (7, 8, 9), (-0.5, math.nan, -0.1), (True, False, True)), 1.0)
    plain = rollout(Policy.A, 1, Tokens((5,), (7,), (-0.5,)), -2.0)
    (batch,) = policy_batches([stream(Policy.A, [[turns, plain]])], 100)
    assert batch.live == Shares(2, 3)
    scored = Pack.of(batch.passes[0], torch.device("cpu")).scored
    assert scored.counts.tolist() == [1, 0, 1, 1]
    assert scored.row.tolist() == [0, 0, 0, 1]
    assert scored.advantage.tolist() == [1, 1, 1, -2]
    assert torch.isnan(scored.then).tolist() == [False, True, False, False]


def test_completions_without_tokens_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2,)), 1.0)]
    object.__setattr__(group[0].completion, "tokens", None)
    with pytest.raises(EngineError, match="carries no token ids"):
        policy_batches([stream(Policy.A, [group])], 100)


def test_log_probabilities_that_do_not_match_their_tokens_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2, 3), (-1.0,)), 1.0)]
    with pytest.raises(EngineError, match="1 log-probabilities for 2 tokens"):
        policy_batches([stream(Policy.A, [group])], 100)


def test_marks_of_sampled_tokens_that_do_not_match_them_are_refused() -> None:
    group = [rollout(Policy.A, 0, Tokens((1,), (2, 3), None, (True,)), 1.0)]
    with pytest.raises(EngineError, match="1 marks of sampled tokens for 2 tokens"):
        policy_batches([stream(Policy.A, [group])], 100)
