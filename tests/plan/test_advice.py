"""What a plan advises can be typed: every key of it gives a config that is valid, and helps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agon.config import Config, load_config
from agon.engine.base_config import read_base_config
from agon.errors import InputError
from agon.plan.base_shapes import shape_of
from agon.plan.gpus import GPUS, Gpu, Node
from agon.plan.hardware import plan_on
from agon.plan.layout import layouts

from .helpers import RECIPE

PRESETS = Path(__file__).resolve().parents[2] / "src" / "agon" / "recipes"
NAMES = ("codecontests-easy", "deepmath-day", "deepmath-hard", "gsm8k", "qwen3-32b-8x80gb", "qwen3-8b-24gb", "smoke")
CARDS = ("t4", "4060", "4090", "l40s", "h100")
IN_FOUR_BITS = ("model.quantize=nf4", "sampler.options={quantization: bitsandbytes}")
VARIANTS = [
    (),
    IN_FOUR_BITS,
    ("train.shard=base", "model.name=Qwen/Qwen3-32B"),
    ("train.staleness=2", "sampler.replicas=4"),
    ("sampler.options={tensor_parallel_size: 2, max_num_seqs: 8}",),
    ("sampler.options.tensor_parallel_size=4", "sampler.sleep=true", "model.name=Qwen/Qwen3-32B"),
]


@pytest.mark.parametrize("words", VARIANTS)
@pytest.mark.parametrize("gpus", [1, 8])
def test_the_keys_of_a_layout_say_all_that_it_changes(words: tuple[str, ...], gpus: int) -> None:
    """Staleness too: what a layout changes in what is learnt has a key of its own."""
    config = load_config(RECIPE, words)
    shape = shape_of(read_base_config(config.model))
    for tried, keys, _ in layouts(config, shape, GPUS["h100"], gpus):
        typed = [word for word in words if not _set_by(keys, word)]
        if any(word.startswith("sampler.options=") for word in typed):  # `command` writes options as a whole
            typed = [word for word in typed if not word.startswith("sampler.options=")]
            typed += [f"sampler.options.{name}={value}" for name, value in config.sampler.options.items()]
            typed = [word for word in typed if not _set_by(keys, word)]
        assert load_config(RECIPE, [*typed, *keys]) == tried


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("preset", NAMES)
def test_what_is_advised_is_valid_and_helps(preset: str, gpus: int) -> None:
    for card in CARDS:
        follow(PRESETS / f"{preset}.yaml", (), GPUS[card], gpus)


@pytest.mark.parametrize("words", VARIANTS)
@pytest.mark.parametrize("card", ["t4", "4090"])
def test_what_is_advised_to_an_odd_config_is_valid_and_helps(words: tuple[str, ...], card: str) -> None:
    for gpus in (4, 8):
        follow(RECIPE, words, GPUS[card], gpus)


def test_four_bits_with_shorter_rows_are_advised_where_neither_helps_alone() -> None:
    words = ("model.name=Qwen/Qwen3-4B",)
    refused = plan_on(load_config(RECIPE, words), Node(GPUS["3060"])).refusal
    assert refused is not None
    assert refused.fix.startswith("set model.quantize=nf4 ")
    assert " train.max_completion_tokens=" in refused.fix
    follow(RECIPE, words, GPUS["3060"], 1)


@pytest.mark.parametrize(("file", "engine"), [("tabletop/agon.yaml", True), ("examples/two-bases.yaml", False)])
def test_an_engine_is_advised_only_where_the_config_may_have_it(file: str, engine: bool) -> None:
    path = RECIPE.parents[2] / file
    with pytest.raises(InputError) as refused:
        plan_on(load_config(path), Node(GPUS["h100"]))
    assert ("add sampler.engine=vllm" in refused.value.fix) is engine
    if engine:
        assert load_config(path, ["sampler.engine=vllm"]).sampler.engine == "vllm"


def follow(path: Path, words: tuple[str, ...], gpu: Gpu, gpus: int, again: bool = True) -> None:
    """Apply everything that a plan advises; its speed is left out, so that nothing is played through."""
    config, node = load_config(path, words), Node(replace(gpu, teraflops=None), gpus)
    try:
        plan = plan_on(config, node, words=(str(path), *words))
    except InputError as error:  # more GPUs than there are
        keys = shlex.split(error.fix.partition(", or set ")[2])
        return follow(path, (*(word for word in words if not _set_by(keys, word)), *keys), gpu, gpus, again)
    for row in plan.layouts.rows.values() if plan.layouts else ():
        advised = typed_after_train(str(row[-1]))
        assert plan_on(load_config(path, advised), node, search=False).refusal is None, row
    for way in ways(plan.refusal.fix if plan.refusal else ""):
        if way.startswith("use a larger GPU: --gpu "):
            follow(path, words, GPUS[way.rpartition(" ")[2]], gpus, again=False)
        elif way.startswith("start it with "):
            advised = typed_after_train(way)
            assert same_age(config, load_config(path, advised)) or "train.staleness=" in way
            assert plan_on(load_config(path, advised), node, search=False).refusal is None, way
        elif way.startswith("set model.name=to") or not way.startswith("set "):
            assert way in ("use a T4, an RTX 20 or anything newer", "set model.name to a smaller base")
        else:
            keys = shlex.split(way.removeprefix("set ").partition(":" + " engines")[0])
            rest = [word for word in words if not _set_by(keys, word)]
            assert load_config(path, [*rest, *keys])
            if again:  # a base, or a dtype, may need a different layout
                follow(path, (*rest, *keys), gpu, gpus, again=False)


def ways(fix: str) -> Iterator[str]:
    yield from filter(None, fix.split(", or "))


def typed_after_train(command: str) -> list[str]:
    words = shlex.split(command)
    return words[words.index("train") + 2 :]


def same_age(one: Config, two: Config) -> bool:
    return one.train.staleness == two.train.staleness


def _set_by(keys: tuple[str, ...] | list[str], word: str) -> bool:
    """Whether a key of the advice replaces a word that was typed."""
    name = word.partition("=")[0]
    return any(name == key or name.startswith(f"{key}.") for key in (key.partition("=")[0] for key in keys))
