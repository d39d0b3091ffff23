"""Two policies on the same trials: the four counts and what they say. Standard library only, as training counts too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def joint(pairs: Iterable[tuple[bool, bool]]) -> dict[str, int]:
    """The four counts of two outcomes on the same trials."""
    held = list(pairs)
    return {
        "both_right": sum(a and b for a, b in held),
        "only_first": sum(a and not b for a, b in held),
        "only_second": sum(b and not a for a, b in held),
        "both_wrong": sum(not a and not b for a, b in held),
    }


def overlap(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Of all trials that either fails, the share that both fail; and Yule's Q (1: alike, 0: independent, -1: apart)."""
    wrong = counts["both_wrong"] + counts["only_first"] + counts["only_second"]
    agree = counts["both_right"] * counts["both_wrong"]
    differ = counts["only_first"] * counts["only_second"]
    return {
        "error_overlap": counts["both_wrong"] / wrong if wrong else None,
        "q": (agree - differ) / (agree + differ) if agree + differ else None,
    }


def over_training(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How A and B fail together at each evaluation point of a run: `points.json`, where it counted both."""
    counted = [(point["step"], point["systems"].get("b", {})) for point in points]
    names = ("both_right", "only_first", "only_second", "both_wrong")
    return [{"step": step, **{name: b[name] for name in names}, **overlap(b)} for step, b in counted if names[0] in b]
