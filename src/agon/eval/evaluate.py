"""An evaluation as it runs: which trials are missing, drawing them, writing each down as it ends, and the results.

Killed at any moment, it goes on where it stopped: trials on disk are not held again, and a draft on disk serves every
cascade that starts from it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from agon.errors import RunDirError
from agon.eval import measures
from agon.eval.cascade import Seat, System, Table, answer, numbers_of
from agon.eval.intervals import optimism
from agon.eval.records import Record, Records, first_stage, key, of_problems
from agon.eval.result import SCHEMA, measured, score
from agon.eval.systems import SYSTEMS
from agon.rundir.files import write_json
from agon.types import Direction, Policy, Problem

Outcomes = Mapping[str, Sequence[bool | None]]
IN_FLIGHT = 256
"""Problems asked at once: enough to fill an engine, few enough that a kill loses little."""


@dataclass(slots=True)
class Evaluation:
    """Systems on problems, in one folder. `settings` is all that a trial depends on besides its name."""

    folder: Path
    problems: Sequence[Problem]
    systems: Mapping[str, System]
    samples: int
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    records: dict[str, dict[tuple[str, int], Record]] = field(default_factory=dict)

    def open(self) -> None:
        """Read what is there; refuse records that were made with other settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.systems:
            self._check(name)
            self._file(name).mend()
            self.records[name] = {key(record): record for record in self._file(name).read()}
            write_json(self._path(name), self._head(name))

    def missing(self) -> list[tuple[Problem, int, str]]:
        """The trials that are not on disk: problem, sample, name of the system."""
        return [
            (problem, sample, name)
            for problem in self.problems
            for sample in range(self.samples)
            for name, system in self.systems.items()
            if any((problem.id, number) not in self.records[name] for number in numbers_of(system, sample))
        ]

    async def hold(self, table: Table, progress: Callable[[int, int], None]) -> None:
        """Hold every missing trial and write each down as it ends."""
        missing, done = self.missing(), 0
        self._recall(table)
        seats = asyncio.Semaphore(IN_FLIGHT * max(1, len(self.systems)))

        async def trial(problem: Problem, sample: int, name: str) -> None:
            nonlocal done
            async with seats:
                self._keep(name, await answer(problem, sample, self.systems[name], table))
            done += 1
            progress(done, len(missing))

        async with asyncio.TaskGroup() as tasks:
            for each in missing:
                tasks.create_task(trial(*each))

    def finish(self) -> dict[str, dict[str, Any]]:
        """Write the result of every system that is whole; return them by name."""
        results = {}
        for name in self.systems:
            self._file(name).sync()
            head = self._head(name)
            results[name] = head | (measured(self.kept(name)) if head["complete"] else {})
            write_json(self._path(name), results[name])
        return results

    def kept(self, name: str) -> list[Record]:
        """The records of this evaluation's problems and samples."""
        return of_problems(self.records[name].values(), self.problems, self._trials(name))

    def write(self, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result that is derived from others, under its own name."""
        whole = {**result, "system": name}
        write_json(self._path(name), whole)
        return whole

    def _trials(self, name: str) -> int:
        return self.samples * len(numbers_of(self.systems[name], 0))

    def _keep(self, name: str, trials: Sequence[Any]) -> None:
        new = [trial for trial in trials if (trial.problem.id, trial.sample) not in self.records[name]]
        lines = self._file(name).append(new, name)
        self.records[name] |= {key(record): record for record in lines}

    def _recall(self, table: Table) -> None:
        """Tell the table every draft that is on disk, of whichever system, if it was made with these settings."""
        problems = {problem.id: problem for problem in self.problems}
        for seat, record in self._drafts():
            if record["problem"] in problems:
                table.know(problems[record["problem"]], record["sample"], seat, *first_stage(record))

    def _drafts(self) -> Iterator[tuple[Seat, Record]]:
        for name in SYSTEMS:
            if name in self.records:
                records = list(self.records[name].values())
            elif self._settings_on_disk(name) == self.settings:
                records = list(self._file(name).read())
            else:
                continue
            yield from ((drafter(record), record) for record in records)

    def _settings_on_disk(self, name: str) -> Any:
        try:
            return json.loads(self._path(name).read_text(encoding="utf-8"))["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _check(self, name: str) -> None:
        if not self._path(name).exists() and not self._file(name).path.exists():
            return
        stored = self._settings_on_disk(name) or {}
        changed = [k for k in sorted({*stored, *self.settings}) if stored.get(k) != self.settings.get(k)]
        if changed:
            told = ", ".join(f"{k} ({stored.get(k)} -> {self.settings.get(k)})" for k in changed)
            fix = "evaluate with the old settings, or --fresh to throw those records away"
            raise RunDirError(f"{self._file(name).path} was made with other settings: {told}", fix=fix)

    def _head(self, name: str) -> dict[str, Any]:
        of = len(self.problems) * self._trials(name)
        done = len(self.kept(name))
        return {
            "schema": SCHEMA,
            "system": name,
            "complete": done == of,
            "done": done,
            "of": of,
            "run": dict(self.facts),
            "data": {"name": self.folder.name, "problems": len(self.problems), "samples": self.samples},
            "settings": dict(self.settings),
            "records": self._file(name).path.name,
        }

    def _file(self, name: str) -> Records:
        return Records(self.folder / f"{name}.jsonl")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def drafter(record: Record) -> Seat:
    """Whose answer to the plain prompt a trial starts from."""
    policy = (record.get("draft") or record["final"])["policy"]
    return Seat(Policy(policy) if policy else None)


def throw_away(folder: Path, names: Sequence[str]) -> None:
    """Delete the records and results of some systems."""
    for name in names:
        for path in (folder / f"{name}.jsonl", folder / f"{name}.json"):
            path.unlink(missing_ok=True)


# -- results derived from others --------------------------------------------------------------------------------------


def chosen_cascade(ab: Mapping[str, Any], ba: Mapping[str, Any], direction: Direction) -> dict[str, Any]:
    """The direction that dev chose, as the cascade's result; the other one's pass rate stands beside it."""
    both = {"ab": ab, "ba": ba}
    about = {"chosen": direction.value, "by": "dev", "pass": _rates(both)}
    return {**both[direction.value], "direction": about}


def post_hoc_cascade(ab: Mapping[str, Any], ba: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's choice: the better direction on the evaluated problems themselves, with what that choice is worth."""
    both = {"ab": ab, "ba": ba}
    rates = _rates(both)
    chosen = "ab" if (rates["ab"] or 0) >= (rates["ba"] or 0) else "ba"
    gained = optimism(*common_means(ab["outcomes"], ba["outcomes"]))
    about = {"chosen": chosen, "by": "the evaluated problems", "pass": rates, "optimism": gained}
    return {**both[chosen], "direction": about}


def _rates(both: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    return {name: result["pass"]["value"] for name, result in both.items()}


def common_means(one: Outcomes, two: Outcomes) -> tuple[list[float], list[float]]:
    """The share of right answers on each problem that both have graded."""
    known = [{p: [o for o in each if o is not None] for p, each in outcomes.items()} for outcomes in (one, two)]
    common = [p for p in known[0] if known[0][p] and known[1].get(p)]
    first, second = ([fmean(side[p]) for p in common] for side in known)
    return first, second


def single_pass(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Both policies alone as one result: the mean of A and B, problems as units."""
    outcomes = {p: [*each, *b["outcomes"][p]] for p, each in a["outcomes"].items() if p in b["outcomes"]}
    head = {name: a[name] for name in ("schema", "complete", "run", "data", "settings")}
    tokens = {"total": {k: a["tokens"]["total"][k] + b["tokens"]["total"][k] for k in ("generated", "prefilled")}}
    length = {"final": {"all": _pooled(a["length"]["final"]["all"], b["length"]["final"]["all"])}}
    counts = {"done": a["done"] + b["done"], "of": a["of"] + b["of"], "records": [a["records"], b["records"]]}
    return {**head, **counts, **score(outcomes), "tokens": tokens, "length": length, "outcomes": outcomes}


def _pooled(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    n = one["n"] + two["n"]
    return {"n": n, "mean": (one["n"] * (one["mean"] or 0) + two["n"] * (two["mean"] or 0)) / n if n else None}


def both_policies(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Complementarity of A and B on the same trials."""
    pairs = {p: zip(each, b["outcomes"][p], strict=False) for p, each in a["outcomes"].items() if p in b["outcomes"]}
    known = {p: [(x, y) for x, y in each if x is not None and y is not None] for p, each in pairs.items()}
    first = {p: [x for x, _ in each] for p, each in known.items() if each}
    second = {p: [y for _, y in each] for p, each in known.items() if each}
    return measures.complementarity(first, second)
