"""Whether a config fits, and what to change: a change that is advised must help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agon.engine.published import TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.fit import LESS, changes, fit, less_memory, with_value
from agon.plan.gpus import GPUS, find_gpu
from agon.plan.layout import smallest

from .helpers import RECIPE, recipe

SMALL = shape_of(TEXT["Qwen/Qwen3-0.6B"])


def test_an_engine_that_sleeps_takes_what_the_learner_leaves() -> None:
    gpu = find_gpu("24")
    auto, shared = fit(recipe(), SMALL, gpu), fit(recipe("sampler.sleep=false"), SMALL, gpu)
    assert auto.sleeps
    assert not shared.sleeps
    assert shared.share == 0.45
    assert auto.share > 0.8
    assert auto.left > 0.85 * gpu.memory > shared.left
    assert auto.cache > 2 * shared.cache


def test_parts_of_the_engine_add_up_to_its_share() -> None:
    laid = fit(recipe(), SMALL, find_gpu("80"))
    assert laid.engine is not None
    assert abs(laid.cache + laid.engine.static + 2**29 - laid.share * laid.gpu.memory) < 2


def test_a_server_leaves_the_whole_gpu_to_the_learner() -> None:
    laid = fit(recipe("sampler.urls=[http://localhost:8000]"), SMALL, find_gpu("24"))
    assert (laid.engine, laid.taken, laid.cache) == (None, 0, 0)
    assert not laid.problems()


def test_an_update_that_is_too_large_is_named() -> None:
    laid = fit(recipe("train.tokens_per_pass=400000"), SMALL, find_gpu("24"))
    assert any("an update needs" in problem for problem in laid.problems())


def test_an_engine_without_room_for_one_sequence_is_named() -> None:
    laid = fit(recipe("sampler.gpu_memory_utilization=0.1"), SMALL, find_gpu("24"))
    assert any("one sequence" in problem for problem in laid.problems())


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("24", ["train.tokens_per_pass=400000"]),
        ("24", ["train.gradient_checkpointing=false"]),
        ("24", ["sampler.gpu_memory_utilization=0.1"]),
        ("24", ["sampler.gpu_memory_utilization=0.95"]),
        ("24", ["model.name=Qwen/Qwen3-4B", "sampler.sleep=false"]),
        ("16", ["model.name=Qwen/Qwen3-1.7B", "model.dtype=float32"]),
        ("12", ["model.name=Qwen/Qwen3-1.7B"]),
    ],
)
def test_what_is_advised_makes_it_fit(gpu: str, words: list[str]) -> None:
    config = recipe(*words)
    shape = shape_of(TEXT[config.model.name])
    assert fit(config, shape, find_gpu(gpu)).problems()
    advised = changes(config, shape, find_gpu(gpu))
    assert advised
    merged = {word.split("=")[0]: word for word in (*words, *advised)}
    assert not fit(recipe(*merged.values()), shape, find_gpu(gpu)).problems()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "sampler.options"),
        (["sampler.options={max_num_seqs: 32}"], "train.max_completion_tokens"),
        (["model.name=Qwen/Qwen3-4B"], "train.max_completion_tokens"),
        (["train.tokens_per_pass=100000"], "train.tokens_per_pass"),
        (["train.gradient_checkpointing=false", "train.max_completion_tokens=4000"], "train.gradient_checkpointing"),
        (["sampler.sleep=false"], "sampler.sleep"),
        (["train.staleness=1"], "sampler.gpu_memory_utilization"),
        (["model.dtype=float32"], "model.dtype"),
    ],
)
def test_what_is_advised_after_out_of_memory_leaves_an_update_more(words: list[str], key: str) -> None:
    """Also where the plan said that it fits: a display or a fragmented heap is in no plan."""
    config, gpu = recipe(*words), find_gpu("24")
    shape = shape_of(TEXT[config.model.name])
    advised = less_memory(config, gpu.memory)
    assert key in [word.partition("=")[0] for word in advised]
    merged = {word.split("=")[0]: word for word in (*words, *advised)}
    before, after = (fit(recipe(*each), shape, gpu) for each in (words, merged.values()))
    assert after.spare - before.spare >= LESS * before.learner.peak
    assert not after.problems()


def test_nothing_is_advised_where_nothing_leaves_an_update_more() -> None:
    assert less_memory(recipe("model.name=google/gemma-4-E4B-it"), find_gpu("24").memory) == []


def test_an_engine_that_draws_ahead_does_not_sleep() -> None:
    assert not fit(recipe("train.staleness=1"), SMALL, find_gpu("24")).sleeps


def test_no_advice_where_nothing_helps_and_the_smallest_gpu_fits() -> None:
    config = recipe("model.name=google/gemma-4-E4B-it")
    shape = shape_of(TEXT[config.model.name])
    assert changes(config, shape, find_gpu("24")) == []
    name = smallest(config, shape)
    assert name is not None
    assert not fit(config, shape, GPUS[name]).problems()
    smaller = [gpu for gpu in GPUS.values() if gpu.gib < GPUS[name].gib]
    assert smaller
    assert all(fit(config, shape, gpu).problems() for gpu in smaller)


def test_rollouts_in_flight_are_bounded_by_cache_and_by_the_engine() -> None:
    laid = fit(recipe(), SMALL, find_gpu("80"))
    assert laid.in_flight(laid.cache // 10) == 10
    assert laid.in_flight(1) == 256
    assert fit(recipe("sampler.options={max_num_seqs: 4}"), SMALL, find_gpu("80")).in_flight(1) == 4
    assert replace(laid, share=0.0).in_flight(1) == 0


def test_one_key_is_changed() -> None:
    changed = with_value(recipe(), "train.tokens_per_pass", 7)
    assert changed.train.tokens_per_pass == 7
    assert changed.model == recipe().model
    assert RECIPE.exists()
