"""Bytes by part. `evidence/learner_shape.py` compares what a layer saves with the real layers."""

from __future__ import annotations

from agon.engine.published import TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.footprint import engine_bytes, learner_bytes, most_tokens, sequence_bytes

from .helpers import recipe

SMALL = shape_of(TEXT["Qwen/Qwen3-0.6B"])


def test_the_base_once_and_both_adapters_in_float32() -> None:
    config = recipe()
    learner = learner_bytes(SMALL, config.model, config.train, policies=2)
    assert learner.base == 2 * 596_049_920
    assert learner.adapters == learner.gradients == learner.adam // 2 == 2 * 4 * 10_092_544
    alone = learner_bytes(SMALL, config.model, config.train, policies=1)
    assert (alone.adapters, alone.gradients) == (learner.adapters, learner.gradients // 2), "A and B are always there"


def test_activations_grow_with_the_tokens_of_a_pass() -> None:
    short, long = (
        learner_bytes(SMALL, config.model, config.train, 2)
        for config in (recipe("train.tokens_per_pass=17048"), recipe("train.tokens_per_pass=34096"))
    )
    assert long.kept == 2 * short.kept
    assert long.layer == 2 * short.layer
    assert long.static == short.static


def test_a_row_longer_than_the_limit_is_the_largest_pass() -> None:
    assert most_tokens(recipe("train.tokens_per_pass=100").train) == 15_000 + 2_048


def test_without_checkpointing_every_layer_keeps_its_inside() -> None:
    whole, kept = (
        learner_bytes(SMALL, config.model, config.train, 2)
        for config in (recipe("train.gradient_checkpointing=false"), recipe())
    )
    assert whole.layer == 28 * kept.layer


def test_the_cache_of_a_sequence() -> None:
    """112 KiB per token at Qwen3-0.6B; a window bounds Gemma 4's, and Qwen3.5 keeps states of fixed size."""
    config = recipe()
    assert sequence_bytes(SMALL, config, 1000) == 1000 * 112 * 1024
    assert sequence_bytes(SMALL, recipe("sampler.options={kv_cache_dtype: fp8}"), 1000) == 1000 * 56 * 1024
    mixed = shape_of(TEXT["Qwen/Qwen3.5-2B"])
    states = 18 * 16 * 128 * 128 * 4
    assert sequence_bytes(mixed, config, 1000) == states + 1000 * 6 * 2 * 512 * 2
    windows = shape_of(TEXT["google/gemma-4-E4B-it"])
    full = sum(layer.kind == "full" and layer.own_keys for layer in windows.layers)
    grown = sequence_bytes(windows, config, 2000) - sequence_bytes(windows, config, 1000)
    assert grown == 1000 * full * 2 * 1024 * 2, "layers with a window add nothing"


def test_an_engine_holds_the_text_model_and_padded_slots() -> None:
    config = recipe("model.lora.rank=12")
    engine = engine_bytes(SMALL, config.model, max_loras=4)
    assert engine.weights == 2 * 596_049_920
    assert engine.slots == 4 * 2 * 10_092_544, "rank 12 takes the room of 16"
    towers = shape_of(TEXT["google/gemma-4-E4B-it"])
    assert engine_bytes(towers, config.model, 4).weights == 2 * towers.text_parameters
    assert towers.parameters - towers.text_parameters == 450_000_000, "the learner loads towers too"
