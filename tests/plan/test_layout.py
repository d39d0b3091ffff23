"""Layouts of a node: those that fit come first, by time, and what is named can be typed."""

from __future__ import annotations

import shlex

import pytest

from agon.config import Config
from agon.engine.devices import can_split, heads_in
from agon.engine.published import RECIPES, TEXT
from agon.errors import ConfigError
from agon.plan.base_shapes import shape_of
from agon.plan.fit import fit
from agon.plan.footprint import layout_of
from agon.plan.gpus import GPUS, Node, find_gpu
from agon.plan.hardware import HardwarePlan, plan_on
from agon.plan.layout import Choice, choices, command, layouts
from agon.plan.step_time import Assumptions

from .helpers import recipe

LARGE, LARGEST = "Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct"


def ranked(*words: str, gpu: str = "h100", gpus: int = 8) -> list[Choice]:
    config = recipe(*words)
    return choices(config, shape_of((TEXT | RECIPES)[config.model.name]), Node(GPUS[gpu], gpus), Assumptions())


def planned(*words: str, gpu: str = "h100", gpus: int = 8) -> HardwarePlan:
    return plan_on(recipe(*words), Node(GPUS[gpu], gpus), words=("mine.yaml", *words))


@pytest.mark.parametrize("gpus", [2, 3, 4, 6, 8, 16])
def test_every_layout_uses_every_gpu_once(gpus: int) -> None:
    config, shape = recipe(), shape_of(TEXT["Qwen/Qwen3-0.6B"])
    found = [layout_of(tried, gpus) for tried, _, _ in layouts(config, shape, GPUS["h100"], gpus)]
    assert any(layout.apart for layout in found)
    assert not all(layout.apart for layout in found)
    for layout in found:
        drawing = layout.engines * layout.parallel
        assert (layout.learners + drawing if layout.apart else drawing) == gpus
        assert layout.apart or layout.learners == gpus


def test_what_fits_comes_first_by_time_and_then_what_lacks_least() -> None:
    found = ranked(f"model.name={LARGE}", gpu="l40s")
    fitting = [choice for choice in found if not choice.laid.problems()]
    rest = found[len(fitting) :]
    assert 0 < len(fitting) < len(found)
    assert found[: len(fitting)] == fitting
    assert [choice.seconds for choice in fitting] == sorted(choice.seconds for choice in fitting)
    assert [choice.laid.short for choice in rest] == sorted(choice.laid.short for choice in rest)
    assert rest[0].laid.short > 0


def test_what_is_named_can_be_typed_and_takes_the_hours_that_were_named() -> None:
    plan = planned()
    assert plan.layouts is not None
    step, run, typed = plan.layouts.rows["fastest"]
    words = shlex.split(str(typed))
    assert words[:6] == ["torchrun", "--nproc-per-node", "2", "-m", "agon", "train"]
    again = planned(*words[7:])
    assert (again.summary["step"], again.summary["run"]) == (step, run)
    assert again.layouts is not None
    assert again.layouts.rows["fastest, as configured"] == plan.layouts.rows["fastest"]
    assert "in the fastest layout" in plan.verdict
    assert "in the fastest layout" not in again.verdict


def test_the_fastest_layout_is_named_beside_the_second_one_without_ahead_and_the_own_one() -> None:
    plan = planned("model.name=Qwen/Qwen3-8B")
    assert plan.refusal is None
    assert plan.layouts is not None
    rows = plan.layouts.rows
    assert list(rows) == ["fastest", "second best", "fastest with train.staleness=0", "as configured"]
    seconds = [float(str(row[0]).split()[0].replace(",", "")) for row in rows.values()]
    assert seconds == sorted(seconds)
    assert "train.staleness=1" in str(rows["second best"][2])
    assert "train.staleness=1" not in str(rows["fastest with train.staleness=0"][2])
    assert f"{rows['fastest'][1]} in the fastest layout" in plan.verdict


def test_one_gpu_has_one_layout() -> None:
    assert planned(gpus=1).layouts is None
    assert len(ranked(gpus=1)) == 1


def test_a_base_that_no_gpu_holds_is_split_and_the_command_says_how() -> None:
    plan = planned(f"model.name={LARGE}")
    assert plan.verdict.startswith("fits on 8 x H100 SXM in a different layout than configured; about ")
    assert plan.refusal is not None
    assert plan.layouts is not None
    typed = str(plan.layouts.rows["fastest"][2])
    assert {"train.shard=base", "sampler.options.tensor_parallel_size=4"} < set(shlex.split(typed))
    assert "train.staleness=1" in typed
    advised = plan.refusal.fix.removeprefix("start it with ")
    assert "train.staleness" not in advised, "a refusal does not advise what changes the samples that are learnt from"
    assert advised in {row[2] for row in plan.layouts.rows.values()}
    assert plan.config.train.shard == "base"
    laid = fit(plan.config, shape_of(RECIPES[LARGE]), GPUS["h100"], 8)
    assert not laid.problems()
    assert plan.summary["GPU memory: update, at most"] == f"{laid.learner.peak / 2**30:.1f} GiB"


def test_a_base_is_split_only_where_it_does_not_fit_otherwise() -> None:
    found = [choice for choice in ranked() if choice.config.train.shard == "base"]
    assert not found
    assert any(choice.config.train.shard == "base" for choice in ranked(f"model.name={LARGE}"))


def test_an_engine_beside_a_large_learner_leaves_room_for_adams_state() -> None:
    """Of 70B both adapters have 6.6 GB of gradients and Adam's state, and an engine leaves 2 GiB free by itself."""
    best = ranked(f"model.name={LARGEST}")[0]
    assert not best.laid.problems()
    assert best.keys[-1].startswith("sampler.gpu_memory_utilization=0.")
    assert best.laid.held <= GPUS["h100"].memory


def test_where_no_layout_fits_the_plan_says_what_is_short_and_what_helps() -> None:
    plan = planned("model.name=Qwen/Qwen3-14B", gpu="4090")
    assert plan.verdict == "does not fit on 8 x RTX 4090 in any layout"
    assert plan.refusal is not None
    closest = ranked("model.name=Qwen/Qwen3-14B", gpu="4090")[0]
    assert f"is short by {closest.laid.short / 2**30:.1f} GiB" in plan.refusal.message
    assert all(key.partition("=")[0] in plan.refusal.message for key in closest.keys)
    words = shlex.split(plan.refusal.fix.partition("start it with ")[2])
    cap = next(int(word.partition("=")[2]) for word in words if word.startswith("train.max_completion_tokens="))
    shorter = ranked(
        "model.name=Qwen/Qwen3-14B",
        f"train.max_completion_tokens={cap}",
        f"train.tokens_per_pass={cap + 2048}",
        gpu="4090",
    )
    assert closest.laid.short > shorter[0].laid.short


def test_a_base_that_fits_in_some_layout_is_advised_where_the_own_one_fits_in_none() -> None:
    plan = planned(f"model.name={LARGEST}", gpu="4090")
    assert plan.refusal is not None
    advised = plan.refusal.fix.partition("model.name=")[2].split(",")[0]
    assert not ranked(f"model.name={advised}", gpu="4090")[0].laid.problems()
    larger = plan.refusal.fix.rpartition("--gpu ")[2]
    assert not ranked(f"model.name={LARGEST}", gpu=larger)[0].laid.problems()


@pytest.mark.parametrize(
    "words",
    [
        ("sampler.urls=[http://localhost:1]",),
        ("cluster.engine=ray", "cluster.address=local", "cluster.samplers=7"),
    ],
)
def test_engines_elsewhere_are_left_where_they_are(words: tuple[str, ...]) -> None:
    assert [choice.keys for choice in ranked(*words)] == [()]


@pytest.mark.parametrize(("gpus", "learners"), [(8, 1), (7, 7), (2, 2)])
def test_engines_of_a_cluster_are_those_that_it_places(gpus: int, learners: int) -> None:
    plan = planned("cluster.engine=ray", "cluster.address=local", "cluster.samplers=7", gpus=gpus)
    assert plan.refusal is None
    layout = layout_of(plan.config, gpus)
    assert (layout.learners, layout.engines, layout.apart) == (learners, 7, True)


@pytest.mark.parametrize("word", ["sampler.sleep=true", "train.importance=none"])
def test_no_layout_plays_ahead_where_a_rule_forbids_it(word: str) -> None:
    assert all(choice.config.train.staleness == 0 for choice in ranked(word))


def test_a_base_in_four_bits_is_not_split_over_learners() -> None:
    assert all(choice.config.train.shard == "none" for choice in ranked("model.quantize=nf4"))


def test_heads_divide_evenly_over_the_gpus_of_an_engine() -> None:
    """Qwen3-14B has 40 heads: not over 16 GPUs, but over 8."""
    parallel = {layout_of(choice.config, 8).parallel for choice in ranked("model.name=Qwen/Qwen3-14B")}
    assert parallel == {1, 2, 4, 8}
    odd = TEXT["Qwen/Qwen3-0.6B"] | {"num_attention_heads": 6, "num_key_value_heads": 2}
    found = layouts(recipe(), shape_of(odd), GPUS["h100"], 8)
    assert {layout_of(tried, 8).parallel for tried, _, _ in found} == {1, 2}
    with pytest.raises(ConfigError, match="Qwen/Qwen3-14B by it: 40 attention heads, 8 of keys") as refused:
        planned("model.name=Qwen/Qwen3-14B", "sampler.options.tensor_parallel_size=3", gpus=3)
    assert refused.value.fix == "write sampler.options.tensor_parallel_size=2"


@pytest.mark.parametrize("base", [*TEXT, *RECIPES])
def test_the_plan_knows_the_heads_that_the_config_of_a_base_names(base: str) -> None:
    published = (TEXT | RECIPES)[base]
    shape, named = shape_of(published), heads_in(published)
    assert all(can_split(each, shape.heads) == can_split(each, named) for each in range(1, 65))


def test_keys_that_were_typed_are_replaced_and_not_repeated() -> None:
    def typed(config: Config) -> str:
        words = ["my run.yaml", "sampler.replicas=3", "seed=1"]
        return command(config, 8, words, ["sampler.replicas=7", "train.staleness=1"])

    options = ["sampler.options={max_num_seqs: 64}"]
    whole = command(recipe(*options), 8, ["mine.yaml", *options], ["sampler.options.tensor_parallel_size=2"])
    assert shlex.split(whole)[7:] == ["sampler.options={max_num_seqs: 64}"], "options are written as a whole"
    assert typed(recipe("sampler.replicas=7")) == (
        "torchrun --nproc-per-node 1 -m agon train 'my run.yaml' seed=1 sampler.replicas=7 train.staleness=1"
    )


@pytest.mark.parametrize(("replicas", "learners"), [(7, 1), (6, 2), (None, 8)])
def test_several_gpus_are_shared_out_by_a_launcher_also_for_one_learner(replicas: int | None, learners: int) -> None:
    """Without one, transformers would copy the model to every GPU, and the learner refuses that."""
    config = recipe(f"sampler.replicas={replicas}") if replicas else recipe()
    assert command(config, 8, ["mine.yaml"], []).startswith(f"torchrun --nproc-per-node {learners} -m agon train")
    assert command(config, 1, ["mine.yaml"], []) == "agon train mine.yaml"


def test_a_gpu_of_unknown_speed_has_one_layout_that_fits() -> None:
    node = Node(find_gpu("96"), 8)
    plan = plan_on(recipe(f"model.name={LARGE}"), node)
    assert plan.layouts is not None
    assert list(plan.layouts.rows) == ["fits"]
    assert plan.hours is None
