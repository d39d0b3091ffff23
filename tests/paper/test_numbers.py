"""Numbers printed in the paper, checked where they can be: its intervals, and its own arithmetic."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

N = 300
TABLE = {
    "Zero-shot": (23, 18.4, 28.3), "GRPO": (30, 25.0, 35.4), "Self-refinement": (32, 26.9, 37.5),
    "self-cascade": (35, 29.7, 40.7), "MoA": (34, 28.8, 39.5), "shared opponent": (32, 26.9, 37.5),
    "coop": (46, 40.3, 51.8), "Agon": (61, 55.2, 66.6),
}  # fmt: skip


def clopper_pearson(count: int) -> tuple[float, float]:
    low, high = binomtest(count, N).proportion_ci(method="exact")
    return round(100 * low, 1), round(100 * high, 1)


def counts_for(percent: int) -> list[int]:
    return [k for k in range(N + 1) if round(100 * k / N) == percent]


def test_most_rows_of_the_interval_table_are_not_exact_clopper_pearson_for_any_count_out_of_300() -> None:
    exact = {
        name
        for name, (percent, low, high) in TABLE.items()
        if any(clopper_pearson(k) == (low, high) for k in counts_for(percent))
    }
    assert len(exact) < len(TABLE) / 2, f"exact rows: {sorted(exact)}"


def test_every_row_is_within_half_a_point_of_an_exact_interval() -> None:
    for name, (percent, low, high) in TABLE.items():
        off = min(max(abs(a - low), abs(b - high)) for a, b in map(clopper_pearson, counts_for(percent)))
        assert off <= 0.5, f"{name}: {off:.2f} points from the nearest exact interval"


def test_the_lora_adds_the_papers_10_million_parameters_to_qwen3_0_6b() -> None:
    """Rank 16 on all linear layers of Qwen3-0.6B: this is why `all-linear` is our reading of the paper."""
    hidden, inner, layers, heads, kv, head = 1024, 3072, 28, 16, 8, 128
    shapes = [(hidden, heads * head), (hidden, kv * head), (hidden, kv * head), (heads * head, hidden),
              (hidden, inner), (hidden, inner), (inner, hidden)]  # fmt: skip
    parameters = layers * sum(16 * (fan_in + fan_out) for fan_in, fan_out in shapes)
    assert parameters == pytest.approx(10.09e6, rel=1e-3)
    assert parameters / 596e6 == pytest.approx(0.017, abs=0.001), "about 2% of the base"


def test_the_papers_deltas_follow_from_its_table() -> None:
    value = {name: row[0] for name, row in TABLE.items()}
    assert value["Agon"] - value["GRPO"] == 31
    assert value["coop"] - value["GRPO"] == 16
    assert value["Agon"] - value["coop"] == 15
    assert value["Agon"] - value["self-cascade"] == 26
