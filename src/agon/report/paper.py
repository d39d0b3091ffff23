"""The paper's own numbers, shown beside ours: percent solved, mean final-stage tokens in thousands.

One training run per method, one sample per problem, 300 problems; pairs in the direction that is better on those.
"""

from __future__ import annotations

from collections.abc import Mapping

BASE, DATA = "Qwen/Qwen3-0.6B", "deepmath-hard"
CODE_BASE, CODE_DATA = "Qwen/Qwen3-1.7B", "codecontests-easy"

MAIN: Mapping[str, tuple[int, float]] = {
    "zero-shot": (23, 6.1),
    "grpo": (30, 8.1),
    "self-refine": (32, 7.9),
    "self-cascade": (35, 8.0),
    "moa": (34, 6.9),
    "shared-opponent": (32, 7.4),
    "coop": (46, 5.1),
    "agon": (61, 3.5),
}
INTERVALS: Mapping[str, tuple[float, float]] = {
    "zero-shot": (18.4, 28.3),
    "grpo": (25.0, 35.4),
    "self-refine": (26.9, 37.5),
    "self-cascade": (29.7, 40.7),
    "moa": (28.8, 39.5),
    "shared-opponent": (26.9, 37.5),
    "coop": (40.3, 51.8),
    "agon": (55.2, 66.6),
}
TRANSFER: Mapping[str, Mapping[str, int]] = {
    "gsm8k-test": {"zero-shot": 62, "grpo": 68, "agon": 75},
    "math-500": {"zero-shot": 45, "grpo": 52, "agon": 64},
}
SCALING: Mapping[str, Mapping[str, int]] = {
    "Qwen/Qwen3-0.6B": {"zero-shot": 23, "grpo": 30, "agon": 61},
    "Qwen/Qwen3-1.7B": {"zero-shot": 38, "grpo": 46, "agon": 70},
    "Qwen/Qwen3-4B": {"zero-shot": 52, "grpo": 59, "agon": 71},
    "Qwen/Qwen3.5-2B": {"zero-shot": 44, "grpo": 50, "agon": 70},
    "google/gemma-4-E4B-it": {"zero-shot": 50, "grpo": 58, "agon": 73},
}
CODE: Mapping[str, tuple[int, float]] = {
    "zero-shot": (18, 5.2),
    "grpo": (24, 7.3),
    "coop": (29, 4.8),
    "agon": (34, 3.9),
}
ABLATIONS: Mapping[str, int] = {"coop": 46, "shared-opponent": 32, "margin": 49, "fixed-roles": 52, "agon": 61}
DENSITY: Mapping[str, tuple[int, float]] = {"agon": (61, 3.5), "tiebreak": (60, 2.6)}
CURVES: Mapping[str, tuple[float, ...]] = {
    "grpo": (23.0, 28.3, 29.7, 31.3, 29.3, 30.7, 30.0),
    "self-refine": (26.0, 27.7, 31.7, 30.3, 33.0, 31.7, 32.0),
    "coop": (34.0, 36.3, 41.3, 43.7, 45.3, 44.7, 46.0),
    "agon": (35.0, 41.7, 45.3, 50.7, 54.3, 58.3, 61.0),
}
"""At 0, 500, ..., 3,000 training problems."""


def describes(base: str, data: str) -> bool:
    """Whether the paper's main comparison is on this base and this data."""
    return (base, data) == (BASE, DATA)
