"""Seconds: bounds that hold whatever the assumptions, and cases by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agon.plan.advice import with_values
from agon.plan.base_shapes import Layer
from agon.plan.gpus import GPUS, find_gpu
from agon.plan.hours import STRIDE, Assumptions, Bouts, Roofline, attention_flops, learner_decides, step_seconds
from agon.plan.memory import fit

from .helpers import BASES, LARGE, SMALL, recipe, seconds


def roofline(*words: str, gpu: str = "h100", **assumed: Any) -> Roofline:
    made = Roofline.of(SMALL, recipe(*words), GPUS[gpu], replace(Assumptions(), **assumed))
    assert made is not None
    return made


def bouts(count: int, two_stages: bool = True, mean: float = 0.4, cap: int = 15_000) -> Bouts:
    return Bouts.of(count, two_stages, cap, Assumptions(mean=mean))


def test_a_gpu_of_unknown_speed_has_no_time() -> None:
    assert Roofline.of(SMALL, recipe(), find_gpu("96"), Assumptions()) is None


@pytest.mark.parametrize("mean", [0.05, 0.3, 0.54, 0.9])
def test_lengths_have_the_mean_that_was_assumed_and_keep_the_cap(mean: float) -> None:
    made = bouts(2000, mean=mean)
    assert sum(made.drafts) / 2000 == pytest.approx(mean * 15_000, rel=0.01)
    assert max(made.drafts) <= 15_000
    assert sorted(made.challenges) == sorted(made.drafts)
    assert made.challenges != made.drafts
    assert set(bouts(10, two_stages=False).challenges) == {0}


def test_one_completion_alone_takes_the_launches_of_every_token() -> None:
    made = roofline(launches=0.01, kernel=0.0)
    assert made.draw(Bouts((640,), (0,)), slots=4) == pytest.approx(640 * 0.01, rel=0.01)
    assert made.draw(Bouts((640,), (640,)), slots=4) == pytest.approx(2 * 640 * 0.01, rel=0.01), "one after the other"
    four = Bouts((640,) * 4, (0,) * 4)
    assert made.draw(four, slots=2) == pytest.approx(2 * made.draw(four, slots=4), rel=0.01)


def test_launches_grow_with_adapted_maps_and_with_fewer_cores() -> None:
    """Of each of 28 layers: queries, keys and values; the output; gate and up; down: two kernels each."""
    assert roofline(launches=0.0, kernel=1.0).launches == 28 * 4 * 2
    assert roofline("model.lora.targets=[q_proj, v_proj]", launches=0.0, kernel=1.0).launches == 28 * 2
    assert roofline("sampler.options={enforce_eager: true}", eager=0.5, kernel=0.0).launches == 0.5
    few = Roofline.of(SMALL, recipe(), replace(GPUS["h100"], cores=2), Assumptions(kernel=0.0))
    assert few is not None
    assert few.launches == 4 * Assumptions().launches


def test_a_learner_in_float32_has_no_tensor_cores() -> None:
    assert roofline("model.dtype=float16", gpu="t4").learner == 8.1e12


def test_long_sequences_read_more_cache() -> None:
    """Without launches, a batch of 64 at 15,000 tokens is bound by its cache: twice as many read twice as much."""
    made = roofline(launches=0.0, kernel=0.0)
    few, many = (made.draw(Bouts((15_000,) * n, (0,) * n), slots=n) for n in (64, 128))
    assert many == pytest.approx(2 * few, rel=0.05)
    assert few == pytest.approx(64 * 114_688 * 15_000**2 / 2 / (3.35e12 * 0.75), rel=0.1)


def test_more_engines_never_beat_the_longest_bout() -> None:
    made, one = bouts(64), roofline()
    times = [one.draw(made.share(engines), slots=90) for engines in (1, 2, 4, 8, 64)]
    assert times == sorted(times, reverse=True)
    assert times[-1] >= (max(made.chains) - STRIDE) * one.assumed.launches
    assert all(max(made.share(engines).chains) == max(made.chains) for engines in (1, 3, 8))


def test_an_engine_on_several_gpus_divides_what_it_reads() -> None:
    whole, quarter = (
        Roofline.of(
            LARGE, with_values(recipe(), {"sampler.options.tensor_parallel_size": n}), GPUS["h100"], Assumptions()
        )
        for n in (1, 4)
    )
    assert whole is not None
    assert quarter is not None
    assert quarter.weights == pytest.approx(whole.weights / 4, rel=0.05), "adapters stay whole"
    assert quarter.place == whole.place / 4


def test_an_update_costs_six_flops_per_weight_and_token() -> None:
    """Forward, forward again and gradients of activations; short rows, so that attention does not count."""
    made = roofline(prompt=0, peek=0, linear=1.0)
    flops = 6 * 10_000 * (SMALL.multiplied + SMALL.head)
    assert made.update([10] * 1_000) == pytest.approx(flops / 989e12, rel=0.1)


def test_attention_is_quadratic_and_a_window_makes_it_linear() -> None:
    layer = Layer("full", 8, 1024, 256, 1, (), 0)
    assert attention_flops(layer, 2000) == 4 * attention_flops(layer, 1000)
    window = replace(layer, window=100)
    assert attention_flops(window, 20_000) == 10 * attention_flops(window, 2000)
    assert attention_flops(window, 2000) < attention_flops(layer, 2000)


def test_gradient_workers_share_the_update_and_nothing_else() -> None:
    config = recipe("sampler.replicas=4", "model.name=Qwen/Qwen3-4B", "train.problems_per_step=64")
    one, four = (seconds(with_values(config, {"train.gpus": k}), "h100", 8) for k in (1, 4))
    assert four["update"] == pytest.approx(one["update"] / 4)
    assert four["play"] == one["play"]
    assert seconds(recipe("rival.kind=frozen"), "4090")["update"] == pytest.approx(
        seconds(recipe(), "4090")["update"] / 2, 0.02
    )


@pytest.mark.parametrize(
    ("base", "engines", "simulated"), [("0.6B", 1, 171), ("4B", 1, 279), ("0.6B", 7, 73.8), ("4B", 7, 116.6)]
)
def test_playing_ahead_takes_as_long_as_a_simulation_of_ten_steps(base: str, engines: int, simulated: float) -> None:
    """Steps that begin while others are learnt from, played through one by one."""
    words = f"model.name=Qwen/Qwen3-{base}", f"sampler.replicas={engines}"
    now, ahead = (seconds(recipe(*words, f"train.staleness={k}"), "h100", engines + 1) for k in (0, 1))
    assert now["step"] - now["play"] <= ahead["step"] < now["step"]
    assert ahead["step"] == pytest.approx(simulated, rel=0.08)


def test_the_learner_decides_from_some_size_on_where_engines_are_many() -> None:
    config = recipe("model.name=Qwen/Qwen3-4B", "sampler.replicas=7", "train.staleness=1")
    shape, assumed = BASES["Qwen/Qwen3-4B"], Assumptions()
    made = Roofline.of(shape, config, GPUS["h100"], assumed)
    assert made is not None
    laid = fit(config, shape, GPUS["h100"], 8)
    problems = learner_decides(made, laid, 8)
    assert problems is not None
    before, after = (
        step_seconds(replace(made, config=with_values(config, {"train.problems_per_step": n})), laid, 8)
        for n in (problems // 2, problems)
    )
    assert before.update <= before.play
    assert after.update > after.play
    assert learner_decides(roofline(), fit(recipe(), SMALL, GPUS["h100"]), 1) is None, (
        "one engine is slower at any size"
    )


def test_every_assumption_is_said() -> None:
    shown, assumed = " ".join(Assumptions().rows().values()), Assumptions()
    percent = [assumed.mean, assumed.live, assumed.bandwidth, assumed.linear, assumed.attention]
    rest = [assumed.spread, assumed.prompt, assumed.peek, assumed.rest, assumed.start, assumed.start_work]
    small = [1000 * assumed.launches, 1000 * assumed.eager, 1e6 * assumed.kernel]
    assert all(text in shown for text in [f"{x:.0%}" for x in percent] + [f"{x:g}" for x in rest + small])
