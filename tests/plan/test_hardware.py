"""A plan on named hardware: what is printed, and what is refused."""

from __future__ import annotations

import shlex

import pytest

from agon.errors import InputError
from agon.plan.gpus import Node, find_gpu
from agon.plan.hardware import HardwarePlan, plan_on

from .helpers import recipe


def planned(*overrides: str, gpu: str = "h100", gpus: int = 1, price: float | None = None) -> HardwarePlan:
    return plan_on(recipe(*overrides), Node(find_gpu(gpu), gpus, price))


def rows(plan: HardwarePlan, title: str) -> dict[str, object]:
    (section,) = (section for section in plan.sections if section.title.startswith(title))
    return section.as_dict()


def hours(plan: HardwarePlan) -> float:
    return float(str(rows(plan, "time")["run"]).split()[0].replace(",", ""))


def test_the_recipe_fits_on_common_gpus() -> None:
    for gpu in ("24", "48", "80"):
        plan = planned(gpu=gpu)
        assert plan.refusal is None
        assert rows(plan, "memory")["fits"] == "yes"


def test_what_does_not_fit_is_refused_with_what_to_change() -> None:
    plan = planned("train.tokens_per_pass=400000", gpu="24")
    assert plan.refusal is not None
    assert plan.refusal.exit_code == 1
    assert plan.refusal.fix.startswith("set train.tokens_per_pass=17048")
    assert rows(plan, "memory")["fits"] == "no"
    assert not any(section.title.startswith("time") for section in plan.sections)


def test_a_base_that_is_too_large_is_answered_with_one_that_fits_and_a_gpu() -> None:
    plan = planned("model.name=google/gemma-4-E4B-it", gpu="24")
    assert plan.refusal is not None
    assert plan.verdict == "does not fit on 1 x RTX 4090"
    key = plan.refusal.fix.split("set ")[1].split(",")[0]
    assert planned(key, gpu="24").refusal is None
    assert planned("model.name=google/gemma-4-E4B-it", gpu=plan.refusal.fix.split("--gpu ")[1]).refusal is None


@pytest.mark.parametrize(("gpu", "dtype"), [("t4", "float16"), ("4090", "bfloat16"), ("a100", "bfloat16")])
def test_a_dtype_that_a_gpu_does_not_have_is_answered_with_one_that_it_has(gpu: str, dtype: str) -> None:
    """float32 has no adapters in vLLM; bfloat16 came with Ampere."""
    for wrong in {"bfloat16", "float32"} - {dtype}:
        refusal = planned(f"model.dtype={wrong}", gpu=gpu).refusal
        assert refusal is not None
        assert f"model.dtype={dtype}" in refusal.fix
    assert planned(f"model.dtype={dtype}", gpu=gpu).refusal is None


def test_a_card_without_kernels_is_refused_in_every_dtype() -> None:
    for dtype in ("bfloat16", "float16", "float32"):
        refusal = planned(f"model.dtype={dtype}", gpu="v100").refusal
        assert refusal is not None
        assert "7.0" in refusal.message


def test_what_would_save_time_saves_it() -> None:
    plan = planned(gpu="4090")
    assert plan.faster is not None
    for keys, (left,) in plan.faster.rows.items():
        changed = planned(*shlex.split(keys), gpu="4090")
        assert str(left) == changed.summary["run"]
        assert hours(changed) < 0.9 * hours(plan)


def test_fp8_is_advised_only_where_it_exists() -> None:
    def advised(gpu: str) -> str:
        faster = planned(gpu=gpu).faster
        return " ".join(faster.rows) if faster else ""

    assert "fp8" in advised("4090")
    assert "fp8" not in advised("3090")


def test_checks_are_a_small_part_of_a_step_that_does_not_grow_with_engines() -> None:
    one, eight, off = planned(), planned(gpus=8), planned("sampler.canary=off")
    assert one.hours is not None
    assert eight.hours is not None
    assert off.hours is not None
    assert 0 < one.hours.step.checks == eight.hours.step.checks < 1
    assert off.hours.step.checks == 0
    assert one.hours.before < eight.hours.before < one.hours.before + 10, "the first check scores rows of every engine"


def test_several_gpus_leave_room_for_nccl() -> None:
    one, eight = (rows(planned(gpus=gpus), "memory") for gpus in (1, 8))
    assert "rest: NCCL" not in one
    assert eight["rest: NCCL"] == "0.5 GiB"
    assert str(eight["main memory of the node"]).startswith("56.9 GiB")


def test_more_gpus_take_fewer_hours_and_cost_more() -> None:
    one, eight = planned(price=2.0), planned(gpus=8, price=2.0)
    assert hours(one) / 8 < hours(eight) < hours(one)
    costs = [float(str(rows(plan, "time")["cost"])[1:].replace(",", "")) for plan in (one, eight)]
    assert costs == pytest.approx([2.0 * hours(one), 16.0 * hours(eight)], rel=0.02)
    assert costs[1] > costs[0]


def seconds(plan: HardwarePlan, row: str) -> float:
    return float(str(rows(plan, "time")[row]).split()[0].replace(",", ""))


def test_the_longest_bout_alone_takes_the_time_of_its_base() -> None:
    """29,161 tokens of Qwen3-4B read 8 GB of weights each: at 75% of 3.35 TB/s that is 94 s, before any cache."""
    row = "of these the longest bout alone"
    small, large = (planned(f"model.name=Qwen/Qwen3-{size}", gpus=8) for size in ("0.6B", "4B"))
    floor = 0.003 + 28 * 4 * 2 * 6e-6
    assert seconds(small, row) == pytest.approx(29_161 * floor, rel=0.05), "the floor decides, kernels of LoRA in it"
    assert seconds(large, row) > 29_161 * 8e9 / (0.75 * 3.35e12)
    for plan in (small, large):
        assert seconds(plan, row) <= seconds(plan, "play"), "it is a part of it"


def test_more_gpus_than_problems_are_a_warning() -> None:
    assert "warning" not in rows(planned(gpus=8), "drawing")
    assert "16 engines share 8 problems" in str(rows(planned(gpus=16), "drawing")["warning"])
    assert "warning" not in rows(planned("sampler.replicas=8", gpus=16), "drawing")


def test_no_price_no_cost() -> None:
    assert "cost" not in rows(planned(), "time")


def test_a_size_alone_has_no_time() -> None:
    assert rows(planned(gpu="96"), "time") == {"not known": "name the GPU and not only its size, such as --gpu h100"}


def test_one_stage_has_a_shorter_chain() -> None:
    assert rows(planned(), "drawing")["longest chain"] == "30,000 tokens, draft + challenge, at most"
    assert rows(planned("arm=grpo"), "drawing")["longest chain"] == "15,000 tokens"


def test_a_plan_for_an_engine_on_a_cpu_is_refused() -> None:
    with pytest.raises(InputError, match="plans for engine vllm"):
        planned("sampler.engine=hf")


def test_fewer_evaluation_points_take_less_time() -> None:
    assert hours(planned("eval.points=0")) < hours(planned()) < hours(planned("eval.against_first=always"))


def test_a_curve_on_held_out_problems_takes_time_too() -> None:
    assert hours(planned("eval.curve=held_out")) > hours(planned())


@pytest.mark.parametrize("kind", ["frozen", "league"])
def test_a_rival_that_does_not_learn_halves_the_update(kind: str) -> None:
    def update(*overrides: str) -> float:
        return float(str(rows(planned(*overrides, gpu="4090"), "time")["update"]).split()[0].replace(",", ""))

    assert update(f"rival.kind={kind}") == pytest.approx(update() / 2, rel=0.02)
