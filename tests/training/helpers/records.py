"""Records of a healthy run, made by hand."""

from __future__ import annotations

from typing import Any

from agon.game.exchange import Exchange
from agon.rundir.records import Point, StepRecord, StreamStats, SystemCounts, Timing
from agon.types import Direction, Policy, Version


def stream(rate: float, **more: Any) -> StreamStats:
    values = {
        "n": 64,
        "graded": 64,
        "pass_rate": rate,
        "reward_mean": 2 * rate + 0.4,
        "groups": 8,
        "live_groups": 4,
        "well_formed": 0.9,
        "truncated": 0.05,
        "tokens_mean": 1233.9,
    }
    return StreamStats(**values | more)


def record(step: int, rate: float = 0.4, **changes: Any) -> StepRecord:
    """One step; `changes` replace whole fields."""
    drafter, challenger = (Policy.A, Policy.B) if step % 2 == 0 else (Policy.B, Policy.A)
    made = StepRecord(
        step=step,
        drafter=drafter,
        challenger=challenger,
        standalone=stream(rate),
        competitive=stream(rate),
        exchange=Exchange(24, 40, 9, 4, 64, 1, 5, 11),
        versions={
            Policy.A: Version.of(Policy.A, step, f"{step:08x}"),
            Policy.B: Version.of(Policy.B, step, f"{step + 1000:08x}"),
        },
        ledger={},
        update={policy: {"loss": 0.01, "grad_norm": 0.2, "updated": 1.0} for policy in Policy},
        ungraded=0,
    )
    return made.model_copy(update=changes)


def timing(step: int, seconds: float = 10.0) -> Timing:
    parts = {"play": 0.6 * seconds, "update": 0.4 * seconds, "write": 0.001}
    return Timing(step=step, seconds=parts, tokens_per_second=6712.4, memory={"process_peak": 10}, canary={})


def counts(n: int, correct: int) -> SystemCounts:
    return SystemCounts(n=n, correct=correct, ungraded=0, well_formed=n, tokens_final=9 * n, tokens_all=9 * n)


POINT = Point(step=6, direction=Direction.AB, score=0.35, systems={"a": counts(10, 2), "ab": counts(0, 0)})
