"""Measures from records: counted by hand on a small table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agon.eval import intervals, measures
from agon.eval.distance import adapter_distance
from agon.eval.joint import joint, overlap
from agon.eval.result import measured


def turn(correct: bool, tokens: int = 10, prompt: int = 5, reason: str | None = None) -> dict:
    return {
        "correct": correct, "well_formed": True, "reason": reason or ("correct" if correct else "wrong"),
        "tokens": tokens, "prompt_tokens": prompt, "finish": "stop", "seconds": 1.0,
    }  # fmt: skip


def bout(n: int, draft: bool, final: bool, leak: bool = False, peek: str = "recap", tokens: int = 10) -> dict:
    return {
        "problem": f"p{n}",
        "sample": 0,
        "draft": turn(draft, 20),
        "final": turn(final, tokens),
        "peek": peek,
        "leak": leak,
    }


ROWS = [
    bout(0, False, True, leak=True, tokens=4),
    bout(1, False, False, tokens=30),
    bout(2, False, False, peek=""),
    bout(3, True, True, tokens=6),
    bout(4, True, False, tokens=20),
]


def test_conversions_are_of_wrong_drafts_and_regressions_of_right_ones() -> None:
    found = measures.exchange(ROWS)
    assert (found["conversion"]["count"], found["conversion"]["of"]) == (1, 3)
    assert (found["regression"]["count"], found["regression"]["of"]) == (1, 2)
    exact = intervals.clopper_pearson(1, 3)
    assert (found["conversion"]["low"], found["conversion"]["high"]) == (exact.low, exact.high)
    assert found["empty_peek"]["count"] == 1


def test_a_leak_is_counted_and_accuracy_is_told_with_and_without_it() -> None:
    found = measures.leak(ROWS)
    assert (found["rate"]["count"], found["pass_with"]["value"], found["pass_without"]["value"]) == (1, 1.0, 0.25)


def test_what_a_machine_failed_on_is_in_no_table() -> None:
    broken = ROWS[0] | {"final": turn(False, reason="infra")}
    assert measures.exchange([broken, *ROWS[1:]])["conversion"]["of"] == 2
    found = measured([broken, *ROWS[1:]])
    assert (found["trials"], found["ungraded"], found["outcomes"]["p0"]) == (4, 1, [None])


def test_tokens_of_both_stages_are_paid_by_right_answers() -> None:
    found = measures.tokens(ROWS)
    assert found["draft"] == {"generated": 100, "prefilled": 25}
    assert found["per_correct"] == {"generated": (100 + 70) / 2, "prefilled": 50 / 2}


def test_lengths_by_outcome_and_by_what_was_read() -> None:
    final = measures.lengths(ROWS)["final"]
    assert {name: final[name]["mean"] for name in ("right", "wrong", "converted", "kept", "regressed", "lost")} == {
        "right": 5, "wrong": 20, "converted": 4, "kept": 6, "regressed": 20, "lost": 20,
    }  # fmt: skip
    assert (final["read_right"]["mean"], final["read_wrong"]["n"]) == (13, 3)


def test_complementarity_by_hand() -> None:
    counts = joint([(True, True)] * 3 + [(True, False)] * 2 + [(False, True)] + [(False, False)] * 4)
    assert overlap(counts) == {"error_overlap": 4 / 7, "q": (12 - 2) / (12 + 2)}
    alike = {f"p{k}": [k < 5] for k in range(10)}
    apart = {f"p{k}": [k >= 5] for k in range(10)}
    assert measures.complementarity(alike, alike)["q"] == 1
    assert measures.complementarity(alike, apart)["q"] == -1
    assert measures.complementarity(alike, apart)["oracle_union"]["value"] == 1


def test_a_share_over_repeated_problems_covers_at_its_level() -> None:
    rng, hits = np.random.default_rng(0), 0
    for _ in range(400):
        chance = rng.beta(1, 1, 100)
        sizes = rng.integers(1, 6, 100)
        found = intervals.rate([(rng.random(n) < p).tolist() for n, p in zip(sizes, chance, strict=True)])
        hits += found.low <= 0.5 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_a_share_without_spread_is_not_certain() -> None:
    found = intervals.rate([[False, False]] * 20)
    assert (found.low, found.value) == (0, 0)
    assert found.high > 0.1


def adapter(folder: Path, factors: list[tuple[np.ndarray, np.ndarray]], dtype: str = "F32") -> Path:
    """A PEFT directory made by hand."""
    folder.mkdir()
    tensors = {
        f"base.layer{i}.lora_{part}.weight": m
        for i, pair in enumerate(factors)
        for part, m in zip("AB", pair, strict=True)
    }
    header, data = {}, b""
    for name, matrix in tensors.items():
        raw = matrix.astype("<f4")
        blob = raw.tobytes() if dtype == "F32" else (raw.view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": dtype, "shape": list(matrix.shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    return folder


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_the_cosine_is_that_of_the_full_updates(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    draw = lambda: [(rng.normal(size=(2, 5)), rng.normal(size=(7, 2))) for _ in range(3)]  # noqa: E731
    one, two = draw(), draw()
    found = adapter_distance(adapter(tmp_path / "a", one, dtype), adapter(tmp_path / "b", two, dtype))
    flat = [np.concatenate([(2 * b @ a).ravel() for a, b in factors]) for factors in (one, two)]
    loose = 1e-5 if dtype == "F32" else 2e-2
    assert found["norm_a"] == pytest.approx(np.linalg.norm(flat[0]), rel=loose)
    wanted = flat[0] @ flat[1] / np.linalg.norm(flat[0]) / np.linalg.norm(flat[1])
    assert found["cosine"] == pytest.approx(wanted, abs=loose)


def test_a_zero_adapter_has_no_direction(tmp_path: Path) -> None:
    zero, some = [(np.ones((2, 5)), np.zeros((7, 2)))], [(np.ones((2, 5)), np.ones((7, 2)))]
    found = adapter_distance(adapter(tmp_path / "a", zero), adapter(tmp_path / "b", some))
    assert (found["norm_a"], found["cosine"]) == (0, None)
