"""The result of one system on one set of problems: `evals/<data>/<system>.json`, with its records beside it.

A result stands on its own: counts, intervals, measures, the settings it was made with, and the outcome of every trial,
so that `agon compare` needs nothing else.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.eval import intervals, measures
from agon.eval.records import Record, graded

SCHEMA = 1


def outcomes_of(records: Sequence[Record]) -> dict[str, list[bool | None]]:
    """Right or wrong by problem, samples in order; null where a machine failed."""
    found: dict[str, list[bool | None]] = defaultdict(list)
    for record in records:
        final = record["final"]
        found[record["problem"]].append(bool(final["correct"]) if graded(final) else None)
    return dict(found)


def score(outcomes: Mapping[str, Sequence[bool | None]]) -> dict[str, Any]:
    """Counts and the pass rate with its interval. Ungraded trials are counted apart: a broken machine is not a wrong
    answer."""
    known = {name: [o for o in each if o is not None] for name, each in outcomes.items()}
    known = {name: each for name, each in known.items() if each}
    trials, correct = sum(map(len, known.values())), sum(map(sum, known.values()))
    single = all(len(each) == 1 for each in known.values())
    return {
        "problems": len(known),
        "trials": trials,
        "correct": correct,
        "ungraded": sum(map(len, outcomes.values())) - trials,
        "pass": measures.interval(intervals.rate(list(known.values()))),
        "interval": "exact (Clopper-Pearson)" if single else "clustered by problem",
        "wilson": measures.interval(intervals.wilson(correct, trials) if single and trials else None),
    }


def measured(records: Sequence[Record]) -> dict[str, Any]:
    """Score and measures of one system's records."""
    outcomes = outcomes_of(records)
    found: dict[str, Any] = score(outcomes)
    found["well_formed"] = measures.share(records, lambda r: bool(r["final"]["well_formed"]))
    if records and "draft" in records[0]:
        found |= {"exchange": measures.exchange(records), "leak": measures.leak(records)}
    return found | {"tokens": measures.tokens(records), "length": measures.lengths(records), "outcomes": outcomes}


@dataclass(frozen=True, slots=True)
class Result:
    """A result that has been read."""

    path: Path
    raw: Mapping[str, Any]

    @property
    def outcomes(self) -> dict[str, list[bool | None]]:
        return {str(name): list(each) for name, each in self.raw["outcomes"].items()}

    @property
    def system(self) -> str:
        return str(self.raw["system"])

    @property
    def data(self) -> str:
        return str(self.raw["data"]["name"])

    @property
    def arm(self) -> str | None:
        arm = self.raw["run"].get("arm")
        return None if arm is None else str(arm)

    @property
    def seed(self) -> int | None:
        seed = self.raw["run"].get("seed")
        return None if seed is None else int(seed)

    @property
    def run(self) -> str:
        return str(self.raw["run"]["name"])


def read_result(path: Path) -> Result:
    """Read a result; one that is not whole is refused with what to type."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != SCHEMA:
            raise RunDirError(f"{path} has schema {raw['schema']!r}, this Agon reads {SCHEMA}")
        complete, told = raw["complete"], f"{raw['done']} of {raw['of']} trials are done"
        raw["data"]["name"], raw["run"]["name"], raw["system"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        fix = "name a file that `agon eval` wrote, such as runs/NAME/evals/held_out/cascade.json"
        raise RunDirError(f"{path} is not a result: {type(error).__name__}: {error}", fix=fix) from error
    if not complete:
        raise RunDirError(f"{path} is not finished: {told}", fix="run the same `agon eval` again: it goes on")
    return Result(path, raw)
