"""What one evaluation says beyond a pass rate, computed from its records alone.

Exchange (conversions, regressions), leaks of the withheld answer, complementarity of two policies, tokens of both
stages, lengths by outcome. None of it is in the paper, which reports final-stage length and no joint outcomes.
Every share carries an interval whose units are problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from agon.eval import intervals
from agon.eval.joint import joint, overlap
from agon.eval.records import Record, graded

Outcomes = Mapping[str, Sequence[bool]]


def share(records: Iterable[Record], event: Callable[[Record], bool]) -> dict[str, Any]:
    """How often something happens among these records: counts and an interval by problem."""
    by_problem: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        by_problem[record["problem"]].append(event(record))
    happened = sum(map(sum, by_problem.values()))
    return {"count": happened, "of": sum(map(len, by_problem.values()))} | interval(
        intervals.rate(list(by_problem.values()))
    )


def interval(found: intervals.Interval | None) -> dict[str, float | None]:
    """An interval as JSON knows it."""
    return {name: None if found is None else getattr(found, name) for name in ("value", "low", "high")}


def right(record: Record) -> bool:
    return bool(record["final"]["correct"])


def drafted(record: Record) -> bool:
    """Whether the draft that was read is right."""
    return bool(record["draft"]["correct"])


def exchange(records: Sequence[Record]) -> dict[str, Any]:
    """What the second stage made of the first: wrong drafts converted, right ones lost; drafts without a summary."""
    known = [r for r in records if graded(r["draft"]) and graded(r["final"])]
    return {
        "conversion": share([r for r in known if not drafted(r)], right),
        "regression": share([r for r in known if drafted(r)], lambda r: not right(r)),
        "empty_peek": share(records, lambda r: not r["peek"]),
    }


def leak(records: Sequence[Record]) -> dict[str, Any]:
    """How often the withheld answer stands in the peek all the same, and the pass rate with and without it."""
    known = [r for r in records if graded(r["final"])]
    return {
        "rate": share(records, lambda r: bool(r["leak"])),
        "pass_with": share([r for r in known if r["leak"]], right),
        "pass_without": share([r for r in known if not r["leak"]], right),
    }


def tokens(records: Sequence[Record]) -> dict[str, Any]:
    """Tokens generated and prefilled at each stage, and all of them for one right answer."""
    stages = {name: [r[name] for r in records if name in r] for name in ("draft", "final")}
    ledger = {
        name: {"generated": sum(t["tokens"] for t in turns), "prefilled": sum(t["prompt_tokens"] for t in turns)}
        for name, turns in stages.items()
        if turns
    }
    correct = sum(map(right, records))
    total = {kind: sum(stage[kind] for stage in ledger.values()) for kind in ("generated", "prefilled")}
    per_correct = {kind: total[kind] / correct if correct else None for kind in total}
    return {**ledger, "total": total, "per_correct": per_correct}


OUTCOMES: Mapping[str, Callable[[Record], bool]] = {
    "right": right,
    "wrong": lambda r: not right(r),
    "read_right": drafted,
    "read_wrong": lambda r: not drafted(r),
    "kept": lambda r: drafted(r) and right(r),
    "converted": lambda r: not drafted(r) and right(r),
    "regressed": lambda r: drafted(r) and not right(r),
    "lost": lambda r: not drafted(r) and not right(r),
}
"""How a trial came out; all but the first two need a draft."""


def lengths(records: Sequence[Record]) -> dict[str, Any]:
    """Mean tokens of the final stage: of all, by its outcome, and by whether the summary it read was right."""
    known = [r for r in records if all(graded(r[stage]) for stage in ("draft", "final") if stage in r)]
    staged = all("draft" in r for r in records)
    groups = {
        name: [r for r in known if holds(r)] for name, holds in (OUTCOMES if staged else dict(_first_two())).items()
    }
    means = {name: _mean(group) for name, group in ({"all": list(records)} | groups).items()}
    return {
        "final": means,
        "truncated": share(records, lambda r: r["final"]["finish"] == "length"),
        "seconds": round(fmean(r["final"]["seconds"] for r in records), 3) if records else None,
    }


def _first_two() -> list[tuple[str, Callable[[Record], bool]]]:
    return list(OUTCOMES.items())[:2]


def _mean(records: Sequence[Record]) -> dict[str, Any]:
    return {"n": len(records), "mean": fmean(r["final"]["tokens"] for r in records) if records else None}


def complementarity(first: Outcomes, second: Outcomes) -> dict[str, Any]:
    """How far two policies fail on the same problems, sample by sample: error overlap, Yule's Q, oracle union."""
    pairs = {p: list(zip(first[p], second[p], strict=False)) for p in first if p in second}
    counts = joint(pair for each in pairs.values() for pair in each)
    either = intervals.rate([[a or b for a, b in each] for each in pairs.values()])
    return counts | {"oracle_union": interval(either)} | overlap(counts)
