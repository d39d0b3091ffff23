"""Seconds: bounds that hold whatever the assumptions, and one case by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agon.engine.published import RECIPES, TEXT
from agon.plan.base_shapes import Layer, shape_of
from agon.plan.fit import with_value
from agon.plan.gpus import GPUS, Gpu, find_gpu
from agon.plan.step_time import STRIDE, Assumptions, Bouts, Speed, attention_flops, bouts_of

from .helpers import recipe

SMALL = shape_of(TEXT["Qwen/Qwen3-0.6B"])


def speed(*words: str, **assumed: float) -> Speed:
    made = Speed.of(SMALL, recipe(*words), GPUS["h100"], replace(Assumptions(), **assumed))
    assert made is not None
    return made


def on_gpus(parallel: int, gpu: Gpu = GPUS["h100"], **assumed: float) -> Speed:
    """An engine of Qwen3-32B on so many GPUs."""
    config = with_value(recipe(), "sampler.options", {"tensor_parallel_size": parallel})
    made = Speed.of(shape_of(RECIPES["Qwen/Qwen3-32B"]), config, gpu, replace(Assumptions(), **assumed))
    assert made is not None
    return made


def test_a_gpu_of_unknown_speed_has_no_time() -> None:
    assert Speed.of(SMALL, recipe(), find_gpu("96"), Assumptions()) is None


def test_lengths_have_the_mean_that_was_assumed_and_keep_the_cap() -> None:
    bouts = bouts_of(2000, True, 15_000, Assumptions(mean=0.3))
    assert sum(bouts.drafts) / 2000 == pytest.approx(4500, rel=0.05)
    assert max(bouts.drafts) == 15_000
    assert sorted(bouts.challenges) == sorted(bouts.drafts)
    assert bouts.challenges != bouts.drafts
    assert set(bouts_of(10, False, 100, Assumptions()).challenges) == {0}


def test_one_completion_alone_takes_the_floor_of_every_token() -> None:
    seconds = speed(floor=0.01, kernel=0.0).draw(Bouts((640,), (0,)), slots=4)
    assert seconds == pytest.approx(640 * 0.01, rel=0.01)


def test_adapters_add_two_kernels_for_every_map_that_vllm_computes_as_one() -> None:
    """Of each of 28 layers: queries, keys and values; the output; gate and up; down."""
    assert speed(floor=0.0, kernel=1.0).floor == 28 * 4 * 2
    assert speed("model.lora.targets=[q_proj, v_proj]", floor=0.0, kernel=1.0).floor == 28 * 2
    assert speed("sampler.options={enforce_eager: true}", eager=0.5, kernel=0.0).floor == 0.5


def test_a_learner_in_float32_has_no_tensor_cores() -> None:
    made = Speed.of(SMALL, recipe("model.dtype=float16"), GPUS["t4"], Assumptions())
    assert made is not None
    assert (made.flops, made.learner_flops) == (65e12, 8.1e12)


def test_a_challenge_waits_for_its_draft() -> None:
    both, draft = (speed(floor=0.01).draw(Bouts((640,), (challenge,)), slots=4) for challenge in (640, 0))
    assert both == pytest.approx(2 * draft, rel=0.01)


def test_what_does_not_fit_at_once_is_drawn_afterwards() -> None:
    four = Bouts((640,) * 4, (0,) * 4)
    assert speed(floor=0.01).draw(four, slots=2) == pytest.approx(2 * speed(floor=0.01).draw(four, slots=4), rel=0.01)


def test_long_sequences_read_more_cache() -> None:
    """Without a floor, a batch of 64 at 15,000 tokens is bound by its cache: twice as many read twice as much."""
    few, many = (speed(floor=0.0).draw(Bouts((15_000,) * n, (0,) * n), slots=n) for n in (64, 128))
    assert many == pytest.approx(2 * few, rel=0.05)
    by_hand = 64 * 114_688 * 15_000**2 / 2 / (3.35e12 * 0.75)
    assert few == pytest.approx(by_hand, rel=0.1)


def test_more_engines_never_beat_the_longest_bout() -> None:
    bouts, one = bouts_of(64, True, 15_000, Assumptions()), speed()
    times = [one.draw(bouts.share(engines), slots=90) for engines in (1, 2, 4, 8, 64)]
    assert times == sorted(times, reverse=True)
    assert times[-1] >= bouts.longest * one.assumed.floor - STRIDE
    assert all(bouts.share(engines).longest == bouts.longest for engines in (1, 3, 8))


def test_an_update_costs_six_flops_per_weight_and_token() -> None:
    """Forward, forward again and gradients of activations; short rows, so that attention does not count."""
    made = speed(prompt=0, peek=0, linear=1.0)
    tokens = 1_000 * 10
    flops = 6 * tokens * (SMALL.multiplied + SMALL.vocabulary * SMALL.hidden)
    assert made.update([10] * 1_000) == pytest.approx(flops / 989e12, rel=0.1)


def test_attention_is_quadratic_and_a_window_makes_it_linear() -> None:
    layer = Layer("full", 8, 1024, 256, 1, (), 0)
    assert attention_flops(layer, 2000) == 4 * attention_flops(layer, 1000)
    window = replace(layer, window=100)
    assert attention_flops(window, 20_000) == 10 * attention_flops(window, 2000)
    assert attention_flops(window, 2000) < attention_flops(layer, 2000)


def test_every_assumption_is_said() -> None:
    shown = " ".join(Assumptions().rows().values())
    for value in (
        "40%",
        "0.8",
        "300",
        "400",
        "80%",
        "75%",
        "3 ms",
        "20 without",
        "6 us",
        "25%",
        "30%",
        "3 s",
        "1 s",
        "20 GB/s",
        "50% of the link",
        "15 us",
        "40 without NVLink",
    ):
        assert value in shown


def test_an_engine_on_several_gpus_divides_what_it_reads_and_adds_all_reduces() -> None:
    """One bout of Qwen3-32B reads 62 GB of weights per token, and has 128 all-reduces of 10 KB."""
    one = Bouts((6400,), (0,))
    whole, quarter = (on_gpus(parallel, floor=0.0, kernel=0.0, all_reduce=0.0).draw(one, 4) for parallel in (1, 4))
    assert quarter == pytest.approx(whole / 4, rel=0.03)
    slower = on_gpus(4, floor=0.0, kernel=0.0, all_reduce=1e-3).draw(one, 4)
    assert slower - quarter == pytest.approx(6400 * 2 * 64 * 1e-3, rel=0.01)


def test_a_slow_link_costs_more_the_more_is_drawn_at_once() -> None:
    fast, slow = (on_gpus(4, replace(GPUS["h100"], link=link)) for link in (450, 32))
    few, many = (
        slow.draw(bouts, 64) - fast.draw(bouts, 64) for bouts in (Bouts((640,), (0,)), Bouts((640,) * 64, (0,) * 64))
    )
    assert 0 < few < many
    assert GPUS["h100"].has_nvlink
    assert not GPUS["5090"].has_nvlink


@pytest.mark.parametrize("learn", [1.0, 60.0, 300.0])
@pytest.mark.parametrize("steps", [1, 2])
def test_playing_ahead_is_bound_by_the_learner_the_engine_and_the_longest_bout(learn: float, steps: int) -> None:
    bouts, made = bouts_of(8, True, 15_000, Assumptions()), speed()
    played, longest = made.draw(bouts, 90), made.draw(bouts.share(8), 1)
    found = made.ahead(bouts, 90, learn, steps)
    assert found <= played + learn
    assert found >= max(learn, (longest + learn) / (steps + 1)) * 0.99
    if learn > played:
        assert found == pytest.approx(learn), "play is hidden"


def test_a_split_base_is_sent_twice_per_pass() -> None:
    made = on_gpus(1, live=1.0, prompt=0, peek=0, link=1.0)
    passes = 3  # of at most 16,384 tokens
    sent = 2 * passes * 2 * made.shape.parameters * 7 / 8
    assert made.gather([1000] * 8 * 40, learners=8) == pytest.approx(sent / 450e9)
    assert made.gather([10], learners=8) == pytest.approx(sent / passes / 450e9), "at least one pass"
