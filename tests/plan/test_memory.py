"""Bytes by part, and whether they fit. `benchmarks/memory.py` compares what a layer saves with the real layers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agon.config import Config
from agon.plan.advice import with_values
from agon.plan.gpus import find_gpu
from agon.plan.memory import (
    GRAPHS,
    HOST,
    NCCL,
    Layout,
    engine_bytes,
    fit,
    host_bytes,
    layout_of,
    learner_bytes,
    most_tokens,
    sequence_bytes,
)

from .helpers import BASES, LARGE, SMALL, recipe


def split(parallel: int, *words: str) -> Config:
    return with_values(recipe(*words), {"sampler.options.tensor_parallel_size": parallel})


def test_the_base_once_and_both_adapters_in_float32() -> None:
    config = recipe()
    learner = learner_bytes(SMALL, config.model, config.train, policies=2)
    assert learner.base == 2 * 596_049_920
    assert learner.adapters == learner.gradients == learner.adam // 2 == 2 * 4 * 10_092_544
    alone = learner_bytes(SMALL, config.model, config.train, policies=1)
    assert (alone.adapters, alone.gradients) == (learner.adapters, learner.gradients // 2), "A and B are always there"


def test_activations_grow_with_the_tokens_of_a_pass_and_without_checkpointing_by_layer() -> None:
    short, long, whole = (
        learner_bytes(SMALL, config.model, config.train, 2)
        for config in map(
            recipe,
            ("train.tokens_per_pass=17048", "train.tokens_per_pass=34096", "train.gradient_checkpointing=false"),
        )
    )
    assert (long.kept, long.layer, long.static) == (2 * short.kept, 2 * short.layer, short.static)
    assert whole.layer == 28 * short.layer
    assert most_tokens(recipe("train.tokens_per_pass=100").train) == 15_000 + 2_048, "a longer row goes alone"


def test_the_cache_of_a_sequence() -> None:
    """112 KiB per token at Qwen3-0.6B; a window bounds Gemma 4's, and Qwen3.5 keeps states of fixed size."""
    config = recipe()
    assert sequence_bytes(SMALL, config, 1000) == 1000 * 112 * 1024
    assert sequence_bytes(SMALL, recipe("sampler.options={kv_cache_dtype: fp8}"), 1000) == 1000 * 56 * 1024
    states = 18 * 16 * 128 * 128 * 4
    assert sequence_bytes(BASES["Qwen/Qwen3.5-2B"], config, 1000) == states + 1000 * 6 * 2 * 512 * 2
    windows = BASES["google/gemma-4-E4B-it"]
    full = sum(layer.kind == "full" and layer.own_keys for layer in windows.layers)
    grown = sequence_bytes(windows, config, 2000) - sequence_bytes(windows, config, 1000)
    assert grown == 1000 * full * 2 * 1024 * 2, "layers with a window add nothing"


def test_an_engine_holds_the_text_model_and_padded_slots() -> None:
    padded, exact = (engine_bytes(SMALL, recipe(f"model.lora.rank={rank}")) for rank in (12, 16))
    assert padded.weights == 2 * 596_049_920
    assert padded.workspace == exact.workspace, "rank 12 takes the room of 16"
    towers = BASES["google/gemma-4-E4B-it"]
    assert engine_bytes(towers, recipe()).weights == 2 * towers.text_parameters
    assert towers.parameters - towers.text_parameters == 450_000_000, "the learner loads towers too"


def test_an_engine_of_few_sequences_has_fewer_graphs_and_an_eager_one_has_none() -> None:
    usual, few, eager = (
        engine_bytes(SMALL, recipe(*words)).graphs
        for words in ((), ("sampler.options={max_num_seqs: 32}",), ("sampler.options={enforce_eager: true}",))
    )
    assert usual == GRAPHS
    assert 0 < few < usual / 4
    assert eager == 0


def test_an_engine_on_several_gpus_divides_weights_and_cache_and_never_splits_a_head() -> None:
    one, four = engine_bytes(LARGE, split(1)), engine_bytes(LARGE, split(4))
    assert four.weights == one.weights // 4 == LARGE.text_parameters * 2 // 4
    assert one.workspace / 4 < four.workspace < one.workspace + NCCL
    assert sequence_bytes(LARGE, split(4), 1000) == sequence_bytes(LARGE, split(1), 1000) // 4
    two_heads = BASES["google/gemma-4-E4B-it"]
    assert sequence_bytes(two_heads, split(2), 1000) == sequence_bytes(two_heads, split(4), 1000)


def test_main_memory_holds_processes_and_bases_or_the_weights_of_sleeping_engines() -> None:
    base, config = BASES["Qwen/Qwen3-4B"], recipe("model.name=Qwen/Qwen3-4B")
    asleep, awake = (host_bytes(base, config, Layout(1, 8, 1, apart=False), sleeps) for sleeps in (True, False))
    assert asleep == 8 * 2 * base.text_parameters + 9 * HOST
    assert awake == 2 * base.parameters + 9 * HOST


def test_the_learner_has_the_first_gpus_and_engines_the_last() -> None:
    assert layout_of(recipe(), 1) == Layout(1, 1, 1, apart=False)
    assert layout_of(recipe("sampler.replicas=7"), 8) == Layout(1, 7, 1, apart=True)
    assert layout_of(recipe("sampler.replicas=8"), 8) == Layout(1, 8, 1, apart=False)
    assert layout_of(split(2, "sampler.replicas=3"), 8) == Layout(1, 3, 2, apart=True)
    assert layout_of(recipe("sampler.urls=[http://localhost:1,http://localhost:2]"), 1) == Layout(1, 2, 1, apart=True)
    workers = with_values(recipe("sampler.replicas=4"), {"train.gpus": 4})
    assert layout_of(workers, 8) == Layout(4, 4, 1, apart=True)


def test_an_engine_that_sleeps_takes_what_the_learner_leaves() -> None:
    gpu = find_gpu("24")
    auto, shared = fit(recipe(), SMALL, gpu), fit(recipe("sampler.sleep=false"), SMALL, gpu)
    assert (auto.sleeps, shared.sleeps, shared.share) == (True, False, 0.45)
    assert auto.share > 0.8
    assert auto.left > 0.85 * gpu.memory > shared.left
    assert auto.cache > 2 * shared.cache
    assert abs(auto.cache + (auto.engine.static if auto.engine else 0) + 2**29 - auto.taken) < 2, "parts add up"
    assert not fit(recipe("train.staleness=1"), SMALL, gpu).sleeps, "it draws while the learner works"


def test_a_server_leaves_the_whole_gpu_to_the_learner() -> None:
    laid = fit(recipe("sampler.urls=[http://localhost:8000]"), SMALL, find_gpu("24"))
    assert (laid.engine, laid.taken, laid.cache) == (None, 0, 0)
    assert not laid.problems()


@pytest.mark.parametrize(
    ("word", "problem"),
    [("train.tokens_per_pass=400000", "an update needs"), ("sampler.gpu_memory_utilization=0.1", "one sequence")],
)
def test_what_does_not_fit_is_named(word: str, problem: str) -> None:
    laid = fit(recipe(word), SMALL, find_gpu("24"))
    assert any(problem in sentence for sentence in laid.problems())
    assert laid.short > 0


def test_rollouts_in_flight_are_bounded_by_cache_and_by_the_engine() -> None:
    laid = fit(recipe(), SMALL, find_gpu("80"))
    assert laid.in_flight(laid.cache // 10) == 10
    assert laid.in_flight(1) == 256
    assert fit(recipe("sampler.options={max_num_seqs: 4}"), SMALL, find_gpu("80")).in_flight(1) == 4
    assert replace(laid, share=0.0).in_flight(1) == 0
