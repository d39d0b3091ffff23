"""The learner on GPUs: a 15,000-token step, and the families' real widths."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers.utils import is_flash_attn_2_available

from agon.config import Lora, Model, Train
from agon.engine.learner import attention as kernels_of
from agon.engine.learner.attention import ROWS
from agon.engine.learner.learner import PairLearner
from agon.engine.synthetic import random_tokens, worst_case
from agon.plan.base_shapes import shape_of
from agon.plan.memory import learner_bytes
from agon.types import Policy
from tests.engine.helpers.bases import random_base

pytestmark = pytest.mark.gpu
Record = Callable[[str, object], None]

QWEN3_0_6B: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
}
MEMORY_GIB = 12.0
"""For one row of 15,000 completion tokens at the 0.6B shape in bfloat16, gradient checkpointing on."""

OVER = 1.15
"""How much more memory than the plan says a step may take."""
NOISE = 0.02
"""Nats per token, on average, between two ways to compute the same in bfloat16."""


def learner_of(base: Any, total_steps: int = 2, dtype: Any = "bfloat16", **train: Any) -> PairLearner:
    model = Model(name="random", dtype=dtype, lora=Lora(rank=16, alpha=32))
    settings: dict[str, Any] = {"warmup": 0.0, "tokens_per_pass": 1} | train
    return PairLearner(model, Train.model_validate(settings), total_steps=total_steps, base=base)


def test_a_step_of_15000_tokens_at_the_0_6b_shape_fits(record_property: Record) -> None:
    base = random_base("qwen3", **QWEN3_0_6B).to(torch.bfloat16)
    learner = learner_of(base, total_steps=1)
    streams = [worst_case(p, 2, QWEN3_0_6B["vocab_size"], 2048, 15_000, seed=i) for i, p in enumerate(Policy)]
    torch.cuda.reset_peak_memory_stats()
    metrics: dict[Policy, Any] = {}
    while learner.step < learner.total_steps:
        metrics.update(learner.update(streams).metrics)
    peak = torch.cuda.max_memory_allocated() / 2**30
    planned = learner_bytes(
        shape_of(QWEN3_0_6B | {"model_type": "qwen3"}), learner.model_config, learner.train_config, 2
    )
    record_property("peak_gib", round(peak, 2))
    record_property("planned_gib", round(planned.peak / 2**30, 2))
    record_property("grad_norm", {p.value: metrics[p]["grad_norm"] for p in Policy})
    assert all(metrics[p]["tokens"] == 30_000 for p in Policy)
    assert peak < MEMORY_GIB
    assert peak < OVER * planned.peak / 2**30


def test_nothing_is_padded_and_no_mask_is_made_on_a_gpu() -> None:
    learner = learner_of(random_base().to(torch.bfloat16))
    assert learner.passes.multiple == 1
    assert learner.passes.autocast
    assert not any(
        module.cast_input_dtype_enabled for module in learner.pair.model.modules() if isinstance(module, BaseTunerLayer)
    )


KERNELS = ["rows", *(["flash_attention_2"] if is_flash_attn_2_available() else [])]


@pytest.mark.parametrize("attention", KERNELS)
@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gemma4"])
def test_a_pack_scores_its_rows_as_alone(family: str, attention: Any, record_property: Record) -> None:
    """In bfloat16; what a different kernel for the same rows changes is the noise that a pack may have."""
    rows = [random_tokens(random.Random(n), 512, 40 + n, 300 * (n + 1)) for n in range(4)]
    base = random_base(
        family, vocab_size=512, vocab_size_per_layer_input=512, head_dim=64, max_position_embeddings=2048
    )
    model = Model(name="random", dtype="bfloat16", attention=attention, lora=Lora(rank=16, alpha=32))
    scores = []
    for tokens in (1, 100_000):
        train = Train(tokens_per_pass=tokens, warmup=0.0)
        learner = PairLearner(model, train, total_steps=1, base=copy.deepcopy(base).to(torch.bfloat16))
        scores.append(torch.cat([torch.tensor(row) for row in learner.score(Policy.B, rows)]))
    difference = float((scores[0] - scores[1]).abs().mean())
    record_property("mean_difference", difference)
    assert difference < NOISE


@pytest.mark.parametrize("window", [None, 48])
@pytest.mark.parametrize("size", [64, 128, 256])
def test_the_kernel_for_variable_lengths_is_attention_by_rows(
    size: int, window: int | None, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """Forward and backward in bfloat16; each is compared with float32 by rows."""
    lengths = [37, 1, 300, 130]
    ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device="cuda")
    settings: dict[str, Any] = {"sliding_window": window, "rows": lengths}
    settings |= {"cu_seq_lens_q": ends, "max_length_q": max(lengths)}
    exact = [torch.randn(1, heads, sum(lengths), size, device="cuda") for heads in (8, 2, 2)]
    weight = torch.randn(1, sum(lengths), 8, size, device="cuda")

    def run(dtype: torch.dtype) -> list[torch.Tensor]:
        states = [x.to(dtype).requires_grad_() for x in exact]
        query, key, value = states
        done, _ = kernels_of.attend(None, query, key, value, None, **settings)
        return [done.detach().float(), *(g.float() for g in torch.autograd.grad((done.float() * weight).sum(), states))]

    assert kernels_of._has_varlen(exact[0].bfloat16())
    at_once, right = run(torch.bfloat16), run(torch.float32)
    monkeypatch.setattr(kernels_of, "_has_varlen", lambda query: False)
    by_rows = run(torch.bfloat16)
    errors = {
        name: [float((a - b).abs().max()) for a, b in zip(found, right, strict=True)]
        for name, found in (("at once", at_once), ("by rows", by_rows))
    }
    record_property("largest_error", errors)
    assert all(a <= 2 * b + 1e-3 for a, b in zip(errors["at once"], errors["by rows"], strict=True))


def kernels(attention: Any) -> list[str]:
    """The names of attention kernels in one pass of a learner."""
    base = random_base(vocab_size=512, head_dim=64, max_position_embeddings=2048).to(torch.bfloat16)
    model = Model(name="random", dtype="bfloat16", attention=attention, lora=Lora(rank=16, alpha=32))
    learner = PairLearner(model, Train(warmup=0.0), total_steps=1, base=base)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        learner.score(Policy.B, [random_tokens(random.Random(n), 512, 40, 300 + n) for n in range(4)])
    words = ("flash", "cudnn", "fmha", "softmax")
    return sorted({event.key for event in profile.key_averages() if any(word in event.key.lower() for word in words)})


def test_the_process_that_imports_vllm_runs_the_kernels_of_the_others(record_property: Record) -> None:
    before = kernels("rows")
    record_property("kernels", before)
    pytest.importorskip("vllm.platforms.cuda")
    assert kernels("rows") == before
    assert any("flash" in name.lower() for name in before)
    assert not any("cudnn" in name.lower() for name in before)


@pytest.mark.skipif(not is_flash_attn_2_available(), reason="flash-attn is not installed")
def test_flash_attention_is_chosen_and_agrees_with_rows(record_property: Record) -> None:
    rows = [random_tokens(random.Random(n), 512, 40 + n, 300 * (n + 1)) for n in range(4)]
    base = random_base(vocab_size=512, head_dim=64, max_position_embeddings=2048)
    scores = {}
    for attention in ("auto", "rows"):
        model = Model.model_validate({"name": "random", "attention": attention})
        learner = PairLearner(model, Train(warmup=0.0), total_steps=1, base=copy.deepcopy(base).to(torch.bfloat16))
        scores[learner.passes.attention] = torch.cat([torch.tensor(row) for row in learner.score(Policy.B, rows)])
    assert scores.keys() == {"flash_attention_2", ROWS}
    difference = float((scores["flash_attention_2"] - scores[ROWS]).abs().mean())
    record_property("mean_difference", difference)
    assert difference < NOISE


WIDTHS: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 16,
        "vocab_size": 248_320,
        "max_position_embeddings": 4096,
    },
    "gemma4": {
        "hidden_size": 2560,
        "intermediate_size": 10_240,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "vocab_size": 262_144,
        "vocab_size_per_layer_input": 262_144,
        "hidden_size_per_layer_input": 256,
        "max_position_embeddings": 4096,
    },
}
"""Layers as wide as the published models', four of them deep."""


@pytest.mark.parametrize("family", list(WIDTHS))
def test_lora_trains_on_the_shape_of_a_family(family: str, record_property: Record) -> None:
    base = random_base(family, **WIDTHS[family]).to(torch.bfloat16)
    learner = learner_of(base, beta=0.01)
    streams = [worst_case(p, 2, WIDTHS[family]["vocab_size"], 128, 1024, seed=i) for i, p in enumerate(Policy)]
    while learner.step < learner.total_steps:
        learner.update(streams)
    record_property("modules", len(learner.pair.targets()))
    for policy in Policy:
        assert all(p in learner.optimizer.state for p in learner.pair.parameters(policy)), "a module without gradient"


@pytest.mark.gpu(any_dtype=True)
@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_a_gpu_step_equals_a_cpu_step_in_float32(loss: str, record_property: Record) -> None:
    """TRL's head scores tokens with another kernel on a GPU than on a CPU."""
    model = Model(name="random", dtype="float32", lora=Lora(rank=4, alpha=8))
    train = Train.model_validate({"loss": loss, "beta": 0.05, "warmup": 0.0, "learning_rate": 0.05, "clip_norm": None})
    ends = []
    for device in ("cuda", "cpu"):
        learner = PairLearner(
            model, train, total_steps=1, base=random_base(), optimizer="sgd", device=torch.device(device)
        )
        before = [p.detach().cpu().clone() for policy in Policy for p in learner.pair.parameters(policy)]
        learner.update([worst_case(policy, 4, 64, 8, 24, seed=i) for i, policy in enumerate(Policy)])
        ends.append([p.detach().cpu().clone() for policy in Policy for p in learner.pair.parameters(policy)])
    apart = max(float((a - b).abs().max()) for a, b in zip(*ends, strict=True))
    moved = max(float((a - b).abs().max()) for a, b in zip(ends[0], before, strict=True))
    record_property("difference", {"weights": apart, "moved": moved})
    assert apart < 1e-4
    assert moved > 100 * apart
