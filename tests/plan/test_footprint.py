"""Bytes by part. `evidence/learner_shape.py` compares what a layer saves with the real layers."""

from __future__ import annotations

from agon.config import Config
from agon.engine.published import RECIPES, TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.fit import with_value
from agon.plan.footprint import (
    GRAPHS,
    HOST,
    NCCL,
    Layout,
    engine_bytes,
    layout_of,
    learner_bytes,
    most_tokens,
    node_bytes,
    sequence_bytes,
)

from .helpers import recipe

LARGE = shape_of(RECIPES["Qwen/Qwen3-32B"])
EIGHT = Layout(8, 8, 1, apart=False)
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
    engine = engine_bytes(SMALL, config)
    assert engine.weights == 2 * 596_049_920
    assert engine.slots == 4 * 2 * 10_092_544, "rank 12 takes the room of 16"
    towers = shape_of(TEXT["google/gemma-4-E4B-it"])
    assert engine_bytes(towers, config).weights == 2 * towers.text_parameters
    assert towers.parameters - towers.text_parameters == 450_000_000, "the learner loads towers too"


def test_an_engine_of_few_sequences_has_fewer_graphs_and_an_eager_one_has_none() -> None:
    usual, few, eager = (
        engine_bytes(SMALL, recipe(*words)).graphs
        for words in ((), ("sampler.options={max_num_seqs: 32}",), ("sampler.options={enforce_eager: true}",))
    )
    assert usual == GRAPHS
    assert 0 < few < usual / 4
    assert eager == 0


def test_float16_is_half_as_wide_in_the_engine_as_in_the_learner() -> None:
    """The learner of a card without bfloat16 computes in float32."""
    config = recipe("model.dtype=float16")
    assert engine_bytes(SMALL, config).weights == 2 * SMALL.text_parameters
    assert learner_bytes(SMALL, config.model, config.train, policies=2).base == 4 * SMALL.parameters


def test_engines_that_sleep_pin_their_weights_in_main_memory() -> None:
    """Eight engines of an 8B base: more than many nodes have."""
    large = shape_of(TEXT["Qwen/Qwen3-4B"])
    config = recipe("model.name=Qwen/Qwen3-4B")
    asleep, awake = (node_bytes(large, config, EIGHT, sleeps, 375, 48_000, 6_000) for sleeps in (True, False))
    assert asleep.pinned == 8 * 2 * large.text_parameters
    assert asleep.host == asleep.pinned + 16 * HOST
    assert awake.pinned == 0
    assert awake.host == asleep.host, "each learner process loads the base through main memory, asleep or not"


def test_disk_holds_the_base_checkpoints_and_bouts() -> None:
    config = recipe()
    few, many = (
        node_bytes(SMALL, config, layout_of(config, 1), True, 375, completions, 6_000).disk
        for completions in (0, 48_000)
    )
    adapters = 2 * 4 * SMALL.adapter_parameters(config.model.lora)
    assert few > 2 * SMALL.parameters + 3 * config.save.keep * adapters
    assert many - few == 3 * 48_000 * 6_000


def split(parallel: int, *words: str) -> Config:
    config = recipe(*words)
    return with_value(config, "sampler.options", {**config.sampler.options, "tensor_parallel_size": parallel})


def test_an_engine_on_several_gpus_divides_weights_and_cache_and_keeps_adapters_whole() -> None:
    one, four = engine_bytes(LARGE, split(1)), engine_bytes(LARGE, split(4))
    assert four.weights == one.weights // 4 == LARGE.text_parameters * 2 // 4
    assert (four.slots, four.graphs) == (one.slots, one.graphs)
    assert one.workspace / 4 < four.workspace < one.workspace + NCCL
    assert sequence_bytes(LARGE, split(4), 1000) == sequence_bytes(LARGE, split(1), 1000) // 4


def test_a_head_of_keys_is_never_split() -> None:
    """Gemma 4 has two heads of keys: four GPUs hold one each, and two of them the same one."""
    windows = shape_of(TEXT["google/gemma-4-E4B-it"])
    one, two, four = (sequence_bytes(windows, split(parallel), 1000) for parallel in (1, 2, 4))
    assert one == 2 * two == 2 * four


def test_a_split_base_is_held_in_parts_and_gathered_by_layers() -> None:
    """Of Qwen3-32B each of eight holds an eighth, two layers on their way, and embeddings and head."""
    config = recipe("model.name=Qwen/Qwen3-32B", "train.shard=base")
    whole = learner_bytes(LARGE, config.model, recipe().train, 2, learners=8)
    parts = learner_bytes(LARGE, config.model, config.train, 2, learners=8)
    assert whole.base == 2 * LARGE.parameters
    layer = 5120 * (2 * 8192 + 2 * 1024) + 3 * 5120 * 25_600 + 2 * 5120 + 2 * 128
    assert parts.base == whole.base // 8 + 2 * (2 * layer + 2 * 151_936 * 5120 + 5120)
    for part in ("adapters", "gradients", "adam", "activations"):
        assert getattr(parts, part) == getattr(whole, part), f"{part} stay whole"


def test_gpus_that_engines_leave_free_learn() -> None:
    assert layout_of(recipe(), 8) == Layout(8, 8, 1, apart=False)
    assert layout_of(recipe("sampler.replicas=6"), 8) == Layout(2, 6, 1, apart=True)
    assert layout_of(split(2), 8) == Layout(8, 4, 2, apart=False)
    assert layout_of(split(2, "sampler.replicas=3"), 8) == Layout(2, 3, 2, apart=True)
    assert layout_of(recipe("sampler.urls=[http://localhost:1,http://localhost:2]"), 4) == Layout(4, 2, 1, apart=True)


def test_learners_of_a_split_base_load_it_once_together() -> None:
    whole, parts = (
        node_bytes(LARGE, recipe(f"train.shard={shard}"), EIGHT, False, 375, 48_000, 6_000).host
        for shard in ("none", "base")
    )
    assert whole - parts == 7 * 2 * LARGE.parameters
