"""Lines of a healthy run, made by hand."""

from __future__ import annotations

from typing import Any


def stream(rate: float, **more: Any) -> dict[str, Any]:
    return {
        "n": 64,
        "graded": 64,
        "solo_rate": rate,
        "reward_mean": 2 * rate + 0.4,
        "groups": 8,
        "live_groups": 4,
        "well_formed": 0.9,
        "truncated": 0.05,
        "tokens_mean": 1233.9,
        **more,
    }


def record(step: int, rate: float = 0.4) -> dict[str, Any]:
    drafter, challenger = "ab" if step % 2 == 0 else "ba"
    exchange = {"rival_wrong": 40, "rival_right": 24, "conversions": 9, "regressions": 4, "shown": 64}
    return {
        "step": step,
        "drafter": drafter,
        "challenger": challenger,
        "standalone": stream(rate),
        "competitive": stream(rate, **exchange, empty_peeks=1, leaks=5),
        "versions": {"a": f"a@{step:06d}-{step:08x}", "b": f"b@{step:06d}-{step + 1000:08x}"},
        "update": {policy: {"loss": 0.01, "grad_norm": 0.2, "updated": 1.0} for policy in "ab"},
        "infra_rows": 0,
    }


def timing(step: int, seconds: float = 10.0) -> dict[str, Any]:
    parts = {"play": 0.6 * seconds, "update": 0.4 * seconds, "write": 0.001}
    return {"step": step, "seconds": parts, "tokens_per_second": 6712.4, "memory": {"process_peak": 10}}


POINT = {"step": 6, "direction": "ab", "score": 0.35, "systems": {"a": {"pass": 0.2}, "ab": {"pass": None}}}
