"""A plan on named hardware: what is printed, what is refused, and that what it advises can be typed and helps."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from agon.config import load_config
from agon.errors import ConfigError, InputError
from agon.plan.advice import layouts, written
from agon.plan.budget import ASSUMED, count
from agon.plan.gpus import GPUS, Node, find_gpu
from agon.plan.memory import fit, layout_of
from agon.plan.plan import about, plan_on

from .helpers import BASES, RECIPE, ROOT, planned, recipe

PRESETS = ROOT / "src" / "agon" / "recipes"
NAMES = ("codecontests-easy", "deepmath-day", "deepmath-hard", "gsm8k", "qwen3-8b-24gb", "smoke")
VARIANTS = [
    ("model.quantize=nf4", "sampler.options={quantization: bitsandbytes}"),
    ("train.staleness=2", "sampler.replicas=3"),
    ("sampler.options={tensor_parallel_size: 2, max_num_seqs: 8}",),
    ("train.tokens_per_pass=400000",),
    ("train.gradient_checkpointing=false",),
    ("sampler.gpu_memory_utilization=0.1",),
    ("model.name=Qwen/Qwen3-4B", "sampler.sleep=false"),
    ("model.name=Qwen/Qwen3-1.7B", "model.dtype=float32"),
    ("model.name=Qwen/Qwen3-32B", "model.quantize=nf4"),
]


def row(plan: object, title: str, label: str) -> str:
    (section,) = (each for each in (*plan.sections, *plan.advice) if each.title.startswith(title))  # type: ignore[attr-defined]
    return str(section.as_dict()[label])


@pytest.mark.parametrize(
    "seconds", [(0.52, "0.52 s"), (40, "40 s"), (360, "6 min"), (5300, "88 min"), (28_400, "7.9 h")]
)
def test_time_is_said_in_the_unit_that_is_meant(seconds: tuple[float, str]) -> None:
    assert about(seconds[0]) == seconds[1]


def test_the_verdict_says_whether_it_fits_for_how_long_at_what_price_and_at_which_length() -> None:
    plan = planned(gpu="4090", price=0.5)
    assert re.match(r"fits on 1 x RTX 4090; about 80 h, \$40 if completions average 5,550 tokens; ", plan.verdict)
    few, many = [plan.column[f"run, if completions average {n} tokens"] for n in ("3,500", "8,100")]
    hours = [float(str(each).split()[0]) for each in (few, plan.column["run"], many)]
    assert hours == sorted(hours)
    assert 2 * hours[1] < 2 * hours[0] + hours[2], "longer completions cost more than in proportion"


def test_what_decides_is_named() -> None:
    assert "reading the cache" in row(planned(gpu="4090"), "what decides", "time")
    assert "one after the other" in row(planned("sampler.replicas=7", gpus=8), "what decides", "time")
    assert row(planned("model.dtype=float16", gpu="t4"), "what decides", "time").startswith("the update")
    large = planned("model.name=Qwen/Qwen3-8B", "sampler.replicas=7", gpus=8)
    assert re.search(
        r"decides from about \d+ problems per step: \d[\d,]* rollouts", row(large, "what decides", "learner")
    )


def test_a_size_alone_has_memory_and_no_time() -> None:
    plan = planned(gpu="96")
    assert (plan.hours, plan.refusal) == (None, None)
    assert "name the GPU" in plan.verdict


def test_an_fp8_cache_is_advised_only_where_the_same_kernel_reads_it() -> None:
    for gpu, served in {"h100": True, "h200": True, "4090": False, "5090": False, "3090": False}.items():
        advice = [label for section in planned(gpu=gpu).advice for label in section.rows]
        assert any("fp8" in label for label in advice) is served, gpu
    asked = "sampler.options={kv_cache_dtype: fp8}"
    assert "another attention kernel" in row(planned(asked, gpu="4090"), "what decides", "warning")
    assert "warning" not in planned(asked).advice[0].rows


def test_a_free_t4_has_two_cores_which_cost_more_than_a_third() -> None:
    config = load_config(PRESETS / "smoke.yaml", ["model.dtype=float16"])
    cards = GPUS["t4"], replace(GPUS["t4"], cores=8)
    slow, fast = (plan_on(config, Node(gpu), count(config.data)).hours for gpu in cards)
    assert slow is not None
    assert fast is not None
    assert 1.3 * fast.run < slow.run < 45 * 60


@pytest.mark.parametrize("gpu", ["4090", "3090"])
def test_three_arms_take_a_day_on_24_gb(gpu: str) -> None:
    total = 0.0
    for arm in ("agon", "coop", "grpo"):
        config = load_config(PRESETS / "deepmath-day.yaml", [f"arm={arm}"])
        found = plan_on(config, Node(GPUS[gpu]), count(config.data), advise=False).hours
        assert found is not None
        total += found.run
    assert 12 < total / 3600 < 24


@pytest.mark.parametrize("name", NAMES)
def test_no_recipe_has_a_number_that_is_not_known(name: str) -> None:
    config = load_config(PRESETS / f"{name}.yaml")
    assert None not in plan_on(config, Node(GPUS["h100"]), count(config.data)).column.values()


def test_problems_are_those_of_the_preset_or_assumed() -> None:
    sources = {"train": "{preset: gsm8k}", "dev": "{preset: gsm8k, take: 300}", "held_out": "{preset: gsm8k-test}"}
    found = count(recipe(*(f"data.{name}={source}" for name, source in sources.items())).data)
    assert (found.train, found.dev, found.held_out, found.assumed) == (7473 - 300, 300, 1319, frozenset())
    unknown = count(recipe("data.train={preset: deepmath-hard}").data)
    assert (unknown.train, unknown.assumed) == (ASSUMED, frozenset({"train"}))


def test_several_gpus_have_layouts_and_keys_that_take_the_hours_that_are_named() -> None:
    plan = planned(gpus=8, price=2.0)
    (section,) = (each for each in plan.advice if each.title == "layouts of 8 x H100 SXM")
    assert {"sampler.replicas=7 train.staleness=1", "as configured"} <= section.rows.keys()
    for keys, (step, run) in section.rows.items():
        again = planned(*shlex.split(keys if "=" in keys else ""), gpus=8, price=2.0)
        assert (again.column["step"], again.column["run"]) == (step, run)
    best = next(iter(section.rows))
    assert f"{section.rows[best][1]} with {best}" in plan.verdict
    assert "fastest" not in planned(*shlex.split(best), gpus=8).verdict
    assert not any(each.title.startswith("layouts") for each in planned(gpus=1).advice)


@pytest.mark.parametrize("gpus", [2, 3, 8])
@pytest.mark.parametrize("words", [(), ("sampler.options={tensor_parallel_size: 2}",), ("train.staleness=2",)])
def test_keys_of_a_layout_give_that_layout_and_no_more_gpus_than_there_are(gpus: int, words: tuple[str, ...]) -> None:
    for keys, tried in layouts(recipe(*words), gpus):
        layout = layout_of(tried, gpus)
        assert layout.engines * layout.parallel <= gpus
        kept = [word for word in words if word.partition("=")[0] not in keys]
        assert load_config(RECIPE, [*kept, *shlex.split(written(keys))]) == tried


@pytest.mark.parametrize("word", ["sampler.sleep=true", "train.importance=none"])
def test_no_layout_plays_ahead_where_a_rule_forbids_it(word: str) -> None:
    assert {tried.train.staleness for _, tried in layouts(recipe(word), 8)} == {0}
    assert [keys for keys, _ in layouts(recipe("sampler.urls=[http://localhost:1]"), 8)] == [{}]


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("card", ["t4", "4060", "4090", "l40s", "h100"])
def test_what_is_advised_is_valid_and_helps(card: str, gpus: int) -> None:
    for name in NAMES:
        follow(PRESETS / f"{name}.yaml", (), card, gpus)
    for words in VARIANTS:
        follow(RECIPE, words, card, gpus)


def follow(path: Path, words: tuple[str, ...], card: str, gpus: int, again: bool = True) -> None:
    """Apply every way that a refusal names; a base, or a dtype, may need another change after it."""
    config, node = load_config(path, words), Node(replace(GPUS[card], teraflops=None), gpus)  # nothing is played
    try:
        plan = plan_on(config, node, count(config.data))
    except InputError:  # more GPUs than there are
        return
    for way in plan.refusal.fix.split(", or ") if plan.refusal else ():
        if way.startswith("use a larger GPU: --gpu "):
            assert not fit(config, BASES[config.model.name], GPUS[way.rpartition(" ")[2]]).problems()
        elif way.startswith("set ") and "=" in way:
            keys = shlex.split(way.removeprefix("set ").partition(": engines")[0])
            names = [key.partition("=")[0] for key in keys]
            changed = (*(word for word in words if word.partition("=")[0] not in names), *keys)
            if again:
                follow(path, changed, card, gpus, again=False)
            elif not way.startswith("set model."):
                changed_config = load_config(path, changed)
                assert plan_on(changed_config, node, count(config.data)).refusal is None, way
        else:
            assert way in ("use a T4, an RTX 20 or anything newer", "set model.name to a smaller base")


@pytest.mark.parametrize(
    ("card", "words", "key"),
    [
        ("24", ["train.tokens_per_pass=400000"], "train.tokens_per_pass=17048"),
        ("24", ["train.gradient_checkpointing=false"], "train.gradient_checkpointing=true"),
        ("24", ["sampler.gpu_memory_utilization=0.1"], "sampler.gpu_memory_utilization=null"),
        ("24", ["model.name=Qwen/Qwen3-4B", "sampler.sleep=false"], "sampler.sleep=true"),
        ("12", ["model.name=Qwen/Qwen3-1.7B"], "train.max_completion_tokens="),
        ("24", ["model.name=Qwen/Qwen3-8B"], "model.quantize=nf4"),
        ("24", ["model.name=google/gemma-4-E4B-it"], "model.name=Qwen/Qwen3.5-2B"),
        ("24", ["model.name=google/gemma-4-E4B-it"], "--gpu a100-40"),
        ("t4", [], "model.dtype=float16"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_keys_to_set(card: str, words: list[str], key: str) -> None:
    plan = planned(*words, gpu=card)
    assert plan.refusal is not None
    assert plan.refusal.exit_code == 1
    assert key in plan.refusal.fix
    assert plan.hours is None


def test_a_card_without_kernels_is_refused_in_every_dtype() -> None:
    for dtype in ("bfloat16", "float16", "float32"):
        assert planned(f"model.dtype={dtype}", gpu="v100").verdict == "cannot run on 1 x V100 16 GB SXM"


@pytest.mark.parametrize(
    ("words", "gpus", "fix"),
    [
        (["sampler.replicas=9"], 8, "add --gpus 9"),
        (["sampler.options={tensor_parallel_size: 2}"], 1, "add --gpus 2"),
        (["sampler.engine=hf"], 1, "add sampler.engine=vllm"),
    ],
)
def test_a_layout_that_cannot_be_is_bad_input(words: list[str], gpus: int, fix: str) -> None:
    with pytest.raises(InputError) as refused:
        planned(*words, gpus=gpus)
    assert fix in refused.value.fix


def test_heads_divide_evenly_over_the_gpus_of_an_engine() -> None:
    with pytest.raises(ConfigError, match="40 attention heads"):
        planned("model.name=Qwen/Qwen3-14B", "sampler.options.tensor_parallel_size=3", gpus=3)


def test_more_engines_than_problems_are_a_warning() -> None:
    assert "16 engines share 8 problems" in row(planned("sampler.replicas=16", gpus=16), "what decides", "warning")


def test_fewer_evaluation_points_take_less_time_and_a_curve_on_held_out_takes_more() -> None:
    words = ("eval.points=0", "eval.points=6", "eval.curve=held_out")
    none, usual, curve = (planned(word).hours for word in words)
    assert none is not None
    assert usual is not None
    assert curve is not None
    assert none.evaluation == 0 < usual.evaluation < curve.evaluation


def test_a_gpu_of_the_table_is_found() -> None:
    assert planned(gpu="24").verdict.startswith(f"fits on 1 x {find_gpu('4090').name}")
