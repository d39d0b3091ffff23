"""Numbers that do not move without a reason: rollouts and tokens, bytes by part, what fits, and two counts by hand."""

from __future__ import annotations

import pytest

from agon.config import load_config
from agon.plan.hours import Assumptions

from .helpers import ROOT, drawn, parts, recipe, seconds

BYTES = {
    "Qwen/Qwen3-0.6B": (1_192_099_840, 322_961_408, 2_847_425_152, 3_752_853_504, 1_146_880_000),
    "Qwen/Qwen3-1.7B": (3_441_149_952, 557_842_432, 5_151_769_216, 6_329_059_328, 1_146_880_000),
    "Qwen/Qwen3-4B": (8_044_936_192, 1_056_964_608, 7_994_993_740, 11_393_170_432, 1_474_560_000),
    "Qwen/Qwen3.5-2B": (3_763_650_176, 538_214_400, 5_808_867_328, 7_009_853_056, 141_754_368),
    "google/gemma-4-E4B-it": (15_826_026_752, 1_244_135_424, 10_855_620_864, 18_693_167_104, 184_811_520),
    "Qwen/Qwen3-8B": (16_381_470_720, 1_396_703_232, 11_374_698_368, 20_083_075_072, 1_474_560_000),
    "Qwen/Qwen3-14B": (29_536_614_400, 2_055_208_960, 15_484_712_038, 33_839_052_800, 1_638_400_000),
    "Qwen/Qwen3-32B": (65_524_246_528, 4_294_967_296, 22_822_007_577, 71_024_158_720, 2_621_440_000),
    "meta-llama/Llama-3.3-70B-Instruct": (
        *(141_107_412_992, 6_627_000_320, 37_185_752_243, 147_520_241_664),
        3_276_800_000,
    ),
}
"""Of the paper's recipe: base, adapters with gradients and Adam's state, the largest pass, an engine without its cache,
and the cache of 10,000 tokens."""
FITS = {
    "Qwen/Qwen3-0.6B": "3060 4090 l40s h100",
    "Qwen/Qwen3-1.7B": "4090 l40s h100",
    "Qwen/Qwen3-4B": "l40s h100",
    "Qwen/Qwen3.5-2B": "4090 l40s h100",
    "google/gemma-4-E4B-it": "l40s h100",
    "Qwen/Qwen3-8B": "l40s h100",
    "Qwen/Qwen3-14B": "h100",
    "Qwen/Qwen3-32B": "",
    "meta-llama/Llama-3.3-70B-Instruct": "",
}


@pytest.mark.parametrize("base", BYTES)
def test_bytes_of_the_papers_recipe(base: str) -> None:
    config = recipe(f"model.name={base}")
    assert parts(config, "h100")[:5] == BYTES[base]
    assert " ".join(gpu for gpu in ("3060", "4090", "l40s", "h100") if parts(config, gpu)[5]) == FITS[base]


@pytest.mark.parametrize(
    ("words", "gpu", "found"),
    [
        (["model.dtype=float16"], "t4", (2_384_199_680, 322_961_408, 5_232_781_312, 3_752_853_504)),
        (
            ["model.quantize=nf4", "sampler.options={quantization: bitsandbytes}"],
            "4090",
            (565_313_536, 322_961_408, 2_847_425_152, 3_119_775_744),
        ),
    ],
)
def test_bytes_in_other_widths(words: list[str], gpu: str, found: tuple[int, ...]) -> None:
    *some, _, fits = parts(recipe(*words), gpu)
    assert tuple(some) == found
    assert fits


@pytest.mark.parametrize(
    ("arm", "evaluated"), [("agon", 9600), ("coop", 9600), ("grpo", 2100), ("self-refine", 4200), ("margin", 9600)]
)
def test_rollouts_and_tokens_of_the_papers_recipe(arm: str, evaluated: int) -> None:
    """Every arm draws 2N rollouts for each of 3,000 problems, under the same cap."""
    assert drawn(recipe(f"arm={arm}")) == (375, 48_000, 720_000_000, 7, evaluated)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("smoke", (20, 640, 655_360, 2, 192)),
        ("gsm8k", (250, 32_000, 65_536_000, 6, 8400)),
        ("deepmath-day", (125, 16_000, 98_304_000, 4, 2000)),
    ],
)
def test_rollouts_and_tokens_of_recipes(name: str, found: tuple[int, ...]) -> None:
    assert drawn(load_config(ROOT / "src" / "agon" / "recipes" / f"{name}.yaml")) == found


def test_hours_agree_with_a_count_by_hand() -> None:
    """RTX 4090: 710,000 tokens a step read their own cache, 112 KiB for each place before them, at 75% of the
    bandwidth; with weights, floor and the tail of long completions, 565 s. The update: 118 s by arithmetic, 96 s by the
    bytes that layers move. 9,600 completions of evaluation: 11.8 h. Together 83 h."""
    found = seconds(recipe(), "4090")
    assert found["play"] == pytest.approx(565, rel=0.05)
    assert found["update"] == pytest.approx(107, rel=0.1)
    assert found["evaluation"] / 3600 == pytest.approx(11.8, rel=0.07)
    assert found["run"] / 3600 == pytest.approx(83, rel=0.05)


def test_an_update_on_an_h100_is_the_part_that_a_count_by_hand_puts_a_third_higher() -> None:
    """Play: 196 s. The update of a small base is bound by traffic between kernels, 24 s by hand: a small part."""
    found = seconds(recipe(), "h100")
    assert found["play"] == pytest.approx(196, rel=0.05)
    assert 0.65 * 24 < found["update"] < 24
    assert found["update"] < 0.1 * found["step"]


@pytest.mark.parametrize(("mean", "hours"), [(3425, 42), (4850, 69), (5550, 83), (7033, 117)])
def test_hours_follow_lengths_as_a_count_by_hand_does(mean: int, hours: float) -> None:
    """Lengths decide: attention over its own past makes the time of a completion grow faster than its length."""
    found = seconds(recipe(), "4090", assumed=Assumptions(mean=mean / 15_000))
    assert found["run"] / 3600 == pytest.approx(hours, rel=0.12)


def test_a_large_step_is_the_learners() -> None:
    """64 problems of an 8B base: one learner needs 1,115 s by hand, where play on seven H100s needs less."""
    found = seconds(recipe("model.name=Qwen/Qwen3-8B", "train.problems_per_step=64", "sampler.replicas=7"), "h100", 8)
    assert found["update"] == pytest.approx(1115, rel=0.05)
    assert found["play"] < found["update"]
