"""Packs: rows that do not see each other, the same numbers as row by row, nothing but scored positions at the head."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch

from agon.engine.learner import attention
from agon.engine.learner.attention import ROWS, attend, use_row_attention
from agon.engine.learner.batch import Pack, Row
from agon.errors import ConfigError, EngineError
from agon.protocols import Tokens
from agon.types import Policy
from tests.engine.helpers.bases import FAMILIES, random_base

from .helpers import make_learner, train, weights

LENGTHS = ((5, 24), (3, 40), (7, 2), (2, 30))
"""Prompts and completions: some longer than Gemma 4's window of 16, one much shorter than the others."""


CPU = torch.device("cpu")


def some_rows(lengths: tuple[tuple[int, int], ...] = LENGTHS) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    made = []
    for prompt, completion in lengths:
        ids = torch.randint(2, 64, (prompt + completion,), generator=generator).tolist()
        made.append(Row.of(Tokens(tuple(ids[:prompt]), tuple(ids[prompt:])), 1.0))
    return made


def test_rows_lie_one_after_the_other_and_positions_start_again() -> None:
    pack = Pack.of([Row.of(Tokens((4,), (5, 6)), 1.0), Row.of(Tokens((7, 8), (9,)), 1.0)], CPU)
    assert pack.ids.tolist() == [[4, 5, 6, 7, 8, 9]]
    assert pack.positions.tolist() == [[0, 1, 2, 0, 1, 2]]
    assert pack.lengths == (3, 3)
    assert pack.labels.tolist() == [[5, 6, 9]]
    assert pack.sources.tolist() == [0, 1, 4], "the token before each: never one of another row"
    assert pack.by_row(torch.tensor([0.5, 0.25, 0.125])) == [[0.5, 0.25], [0.125]]
    ends = pack.arguments()["cu_seq_lens_q"]
    assert (ends.tolist(), ends.dtype, pack.arguments()["max_length_k"]) == ([0, 3, 6], torch.int32, 3)


def test_a_filler_row_makes_the_length_a_multiple() -> None:
    pack, plain = (Pack.of(some_rows(), CPU, multiple) for multiple in (32, 1))
    assert pack.ids.shape == pack.positions.shape == (1, 128)
    assert pack.lengths == (29, 43, 9, 32, 15)
    assert pack.positions[0, -15:].tolist() == list(range(15))
    assert torch.equal(pack.sources[:96], plain.sources), "it is not scored"
    assert pack.labels.size(1) == pack.sources.size(0) == 96 == plain.labels.size(1)
    assert Pack.of(some_rows()[:1], CPU, 32).labels[0, 24:].tolist() == [-100] * 8


def test_a_completion_without_a_prompt_is_refused() -> None:
    """Its first token would be scored by the end of the row before."""
    with pytest.raises(EngineError, match="no prompt"):
        Pack.of([Row.of(Tokens((), (5, 6)), 1.0)], CPU)


def model(family: str) -> Any:
    made = random_base(family, initializer_range=0.3).eval()
    use_row_attention(made, ROWS)
    return made


def logits(made: Any, pack: Pack) -> torch.Tensor:
    arguments = pack.arguments()
    del arguments["shift_labels"]
    with torch.no_grad():
        return made(**arguments, use_cache=False).logits[0]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_row_in_a_pack_is_a_row_alone(family: str) -> None:
    made, rows = model(family), some_rows()
    alone = [logits(made, Pack.of([row], CPU)) for row in rows]
    together = logits(made, Pack.of(rows, CPU, 32))[: sum(len(row) for row in alone)]
    assert (together - torch.cat(alone)).abs().max() < 1e-5


@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_row_sees_another(family: str) -> None:
    made, rows = model(family), some_rows()
    before = logits(made, Pack.of(rows, CPU))
    rows[0].prompt[:], rows[0].completion[:] = 63, 63
    after = logits(made, Pack.of(rows, CPU))
    first = sum(LENGTHS[0])
    assert (before[:first] - after[:first]).abs().max() > 1e-2
    assert torch.equal(before[first:], after[first:])


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_row_alone_is_what_transformers_computes(family: str) -> None:
    made, stock = model(family), random_base(family, initializer_range=0.3).eval()
    pack = Pack.of(some_rows(LENGTHS[:1]), CPU)
    with torch.no_grad():
        expected = stock(input_ids=pack.ids, use_cache=False).logits[0]
    rounding = 5e-5 if family.startswith("gemma") else 1e-5  # windows are computed in blocks
    assert (logits(made, pack) - expected).abs().max() < rounding


def whole(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None) -> torch.Tensor:
    """Attention with the mask written out."""
    place = torch.arange(query.size(2))
    back = place[:, None] - place
    mask = (back >= 0) & (back < (window or query.size(2)))
    groups = query.size(1) // key.size(1)
    keys, values = (states.repeat_interleave(groups, 1) for states in (key, value))
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask).transpose(1, 2)


@pytest.mark.parametrize("window", [None, 4, 16])
@pytest.mark.parametrize("rows", [(3,), (4,), (5,), (37,), (16, 1, 40), (7, 64, 32)])
@pytest.mark.parametrize("size", [8, 320])
def test_attention_by_rows_is_exact_and_so_is_its_gradient(
    window: int | None, rows: tuple[int, ...], size: int
) -> None:
    """Also in blocks of a window, and for heads that no kernel shares keys for."""
    generator, length = torch.Generator().manual_seed(0), sum(rows)
    states = [torch.randn(1, heads, length, size, generator=generator, requires_grad=True) for heads in (4, 2, 2)]
    done, _ = attend(None, *states, None, sliding_window=window, rows=list(rows))
    alone = [whole(*part, window) for part in zip(*(x.split(rows, 2) for x in states), strict=True)]
    expected = torch.cat(alone, 1)
    torch.testing.assert_close(done, expected, atol=1e-5, rtol=1e-4)
    weight = torch.randn(expected.shape, generator=generator)
    for mine, theirs in zip(*(torch.autograd.grad((x * weight).sum(), states) for x in (done, expected)), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-3)


def test_a_window_makes_no_mask_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 15,000 tokens it would have 225 million entries, and attention would compute them all."""
    shapes = list[tuple[int, ...]]()
    kernel = attention.scaled_dot_product_attention

    def noted(*states: torch.Tensor, attn_mask: torch.Tensor | None = None, **more: Any) -> torch.Tensor:
        shapes.append((states[0].size(2), states[1].size(2), *(attn_mask.shape if attn_mask is not None else ())))
        return kernel(*states, attn_mask=attn_mask, **more)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", noted)
    states = [torch.randn(1, heads, 100, 8) for heads in (4, 2, 2)]
    attend(None, *states, None, sliding_window=8, rows=[100])
    assert shapes == [(8, 8), (8, 16, 8, 16)]


def documented_varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.attention.varlen.varlen_attn` as its documentation says: [tokens, heads, size], the window as (left,
    right) of the token itself. The kernel has no CPU form; tests/gpu holds it to the rows."""
    assert enable_gqa == (query.size(1) != key.size(1))
    lengths = cu_seq_q.diff().tolist()
    assert max_q == max_k == max(lengths)
    groups, done = query.size(1) // key.size(1), []
    for q, k, v in zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True):
        back = torch.arange(len(q))[:, None] - torch.arange(len(q))
        left, right = (len(q) if side == -1 else side for side in window_size)
        parts = (q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1))
        heads = (states.transpose(0, 1) for states in parts)
        mask = (back <= left) & (back >= -right)
        done.append(torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask, scale=scale))
    return torch.cat(done, 1).transpose(0, 1)


@pytest.mark.parametrize("window", [None, 1, 4, 16])
@pytest.mark.parametrize("rows", [(3,), (37,), (16, 1, 40), (7, 64, 32)])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_one_call_for_all_rows_is_attention_by_rows(
    window: int | None, rows: tuple[int, ...], heads: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(1, count, sum(rows), 8, generator=generator) for count in (*heads, heads[1])]
    ends = torch.tensor([0, *accumulate(rows)], dtype=torch.int32)
    more = {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": max(rows), "max_length_k": max(rows)}
    settings: dict[str, Any] = {"sliding_window": window, "scaling": 0.3, "rows": list(rows), **more}
    by_rows, _ = attend(None, *states, None, **settings)
    monkeypatch.setattr(attention, "_has_varlen", lambda query: True)
    monkeypatch.setattr(attention, "varlen_attn", documented_varlen)
    at_once, _ = attend(None, *states, None, **settings)
    torch.testing.assert_close(at_once, by_rows, atol=1e-5, rtol=1e-4)


def test_every_layer_of_every_family_says_where_rows_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of the kernel for variable lengths."""
    monkeypatch.setattr(attention, "_has_varlen", lambda query: True)
    monkeypatch.setattr(attention, "varlen_attn", documented_varlen)
    pack = Pack.of(some_rows(), CPU)
    for family in FAMILIES:
        made = model(family)
        at_once = logits(made, pack)
        with monkeypatch.context() as rows:
            rows.setattr(attention, "_has_varlen", lambda query: False)
            torch.testing.assert_close(logits(made, pack), at_once, atol=5e-5, rtol=1e-4)


def test_no_process_takes_kernels_of_its_own() -> None:
    """Importing vLLM turns cuDNN's attention off, and only the processes that draw used to import it."""
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        use_row_attention(random_base(), ROWS)
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


def test_only_scored_positions_reach_the_head() -> None:
    learner = make_learner(total_steps=1)
    seen = list[int]()
    head = learner.pair.model.get_base_model().base_model
    pack = Pack.of([Row.of(Tokens((1, 2, 3), (4, 5)), 1.0), Row.of(Tokens((1,), (4, 5, 6)), 1.0)], CPU)
    with pack.only_scored(head):
        output = head(**{k: v for k, v in pack.arguments().items() if k != "shift_labels"})
        seen.append(output.last_hidden_state.size(1))
    assert seen == [5]
    assert not head._forward_hooks, "the hook is gone"


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_the_gradient_of_a_pack_is_that_of_its_rows(family: str, beta: float) -> None:
    ends = []
    for tokens in (1, 10_000):
        base = random_base(family, initializer_range=0.3)
        learner = make_learner(
            total_steps=1, base=base, tokens_per_pass=tokens, beta=beta, optimizer="sgd", learning_rate=1.0
        )
        train(learner)
        ends.append(torch.cat([w.flatten() for policy in Policy for w in weights(learner, policy)]))
    start = make_learner(total_steps=1, base=random_base(family, initializer_range=0.3))
    moved = ends[0] - torch.cat([w.flatten() for policy in Policy for w in weights(start, policy)])
    assert moved.norm() > 1e-4
    assert (ends[1] - ends[0]).norm() < 1e-4 * moved.norm()


@pytest.mark.parametrize("given", [{"softcap": 50.0}, {"s_aux": torch.zeros(2)}])
def test_scores_that_a_base_changes_are_not_left_as_they_are(given: Any) -> None:
    states = [torch.randn(1, 2, 4, 8) for _ in range(3)]
    with pytest.raises(ConfigError, match="caps attention scores"):
        attend(None, *states, None, rows=[4], **given)
    attend(None, *states, None, rows=[4], softcap=None)
