"""An evaluation on disk: which bouts are missing, drawing them, writing each down as it ends, and the results.

Killed at any moment, it resumes where it stopped: bouts on disk are not drawn again, and a draft on disk serves every
system that starts from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agon.errors import RunDirError, VerifierError
from agon.eval.draw import Evaluator
from agon.eval.measures import measure
from agon.eval.systems import SYSTEMS
from agon.game.cascade import System, indexes
from agon.rundir.log import BoutLog, Key, key
from agon.rundir.records import read_record, write_record
from agon.rundir.results import EvalData, EvalResult, EvalSettings, RunFacts
from agon.types import BASE, Bout, Problem, Reason, Seat

FAILING = 20
"""Bouts in a row without a verdict that stop an evaluation, and are not written down."""
IN_FLIGHT = 256
"""Problems asked at once: enough to fill an engine, few enough that a kill loses little."""


@dataclass(slots=True)
class Evaluation:
    """Systems on problems, in one folder."""

    folder: Path
    problems: Sequence[Problem]
    systems: Mapping[str, System]
    samples: int
    settings: EvalSettings
    facts: RunFacts
    bouts: dict[str, dict[Key, Bout]] = field(default_factory=dict)

    def open(self) -> None:
        """Read what is there; refuse bouts that were drawn with different settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.systems:
            self._check(name)
            self._log(name).truncate()
            self.bouts[name] = self._log(name).read()
            write_record(self._path(name), self._result(name, measured=False))

    def missing(self) -> list[tuple[Problem, int, str]]:
        """The bouts that are not on disk: problem, index, name of the system."""
        return [
            (problem, index, name)
            for problem in self.problems
            for sample in range(self.samples)
            for name, system in self.systems.items()
            for index in indexes(system, sample)
            if (problem.id, index) not in self.bouts[name]
        ]

    async def draw(self, evaluator: Evaluator, progress: Callable[[int, int], None]) -> None:
        """Draw every missing bout and write each down as it ends; stop if the verifier fails again and again."""
        missing, done = self.missing(), 0
        ungraded = list[tuple[str, Bout]]()  # since the last verdict
        self._remember_drafts(evaluator)
        slots = asyncio.Semaphore(IN_FLIGHT * max(1, len(self.systems)))
        others = dict(zip((x.id for x in self.problems), [*self.problems[1:], *self.problems[:1]], strict=True))

        async def bout(problem: Problem, index: int, name: str) -> None:
            nonlocal done
            async with slots:
                drawn = await evaluator.bout(problem, index, self.systems[name], others[problem.id])
            ungraded.append((name, drawn))
            if not _verifier_failed(drawn):
                self._write_all(ungraded)
            elif len(ungraded) == FAILING:
                raise _failing(drawn)
            done += 1
            progress(done, len(missing))

        async with asyncio.TaskGroup() as tasks:
            for each in missing:
                tasks.create_task(bout(*each))
        self._write_all(ungraded)

    def finish(self) -> dict[str, EvalResult]:
        """Write the result of every system; return them by name."""
        results = {}
        for name in self.systems:
            self._log(name).sync()
            results[name] = self._result(name, measured=True)
            write_record(self._path(name), results[name])
        return results

    def write(self, result: EvalResult) -> EvalResult:
        """Write a result that is derived from others, under its own name."""
        write_record(self._path(result.system), result)
        return result

    def _kept(self, name: str) -> list[Bout]:
        """The bouts of this evaluation's problems and samples, in the order of the problems."""
        wanted = [(p.id, i) for p in self.problems for s in range(self.samples) for i in indexes(self.systems[name], s)]
        return [self.bouts[name][each] for each in wanted if each in self.bouts[name]]

    def _result(self, name: str, *, measured: bool) -> EvalResult:
        kept = self._kept(name)
        of = len(self.problems) * self.samples * len(indexes(self.systems[name], 0))
        return EvalResult(
            system=name,
            done=len(kept),
            of=of,
            run=self.facts,
            data=EvalData(name=self.folder.name, problems=len(self.problems), samples=self.samples),
            settings=self.settings,
            records=[self._log(name).path.name],
            measures=measure(kept) if measured and len(kept) == of else None,
        )

    def _write_all(self, bouts: list[tuple[str, Bout]]) -> None:
        """Write these down, and forget them."""
        for name, bout in bouts:
            self._log(name).append([bout], name)
            self.bouts[name][key(bout)] = bout
        bouts.clear()

    def _remember_drafts(self, evaluator: Evaluator) -> None:
        """Hand the evaluator every draft on disk, of whichever system, if it was drawn with these settings."""
        wanted = {problem.id for problem in self.problems}
        for bout in self._on_disk():
            if bout.problem.id in wanted:
                seat: Seat = bout.draft.policy or BASE
                evaluator.remember(seat, bout.draft)

    def _on_disk(self) -> Iterator[Bout]:
        for name in SYSTEMS:
            if name in self.bouts:
                yield from self.bouts[name].values()
            elif self._settings_on_disk(name) == self.settings:
                yield from self._log(name).read().values()

    def _settings_on_disk(self, name: str) -> EvalSettings | None:
        if not self._path(name).exists():
            return None
        try:
            return read_record(self._path(name), EvalResult, fix="").settings
        except RunDirError:
            return None

    def _check(self, name: str) -> None:
        if not self._path(name).exists() and not self._log(name).path.exists():
            return
        stored = self._settings_on_disk(name)
        before, now = stored.model_dump() if stored else {}, self.settings.model_dump()
        changed = [key for key in now if before.get(key) != now[key]]
        if changed:
            changes = ", ".join(f"{key} ({before.get(key)} -> {now[key]})" for key in changed)
            fix = "evaluate with the old settings, or delete those bouts with --fresh"
            raise RunDirError(f"{self._log(name).path} was made with different settings: {changes}", fix=fix)

    def _log(self, name: str) -> BoutLog:
        return BoutLog(self.folder / f"{name}.jsonl")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _verifier_failed(bout: Bout) -> bool:
    return any(rollout.verdict.reason is Reason.INFRA for rollout in bout.rollouts)


def _failing(bout: Bout) -> VerifierError:
    detail = next(r.verdict.detail for r in bout.rollouts if r.verdict.reason is Reason.INFRA)
    return VerifierError(
        f"the verifier failed on {FAILING} answers in a row: {detail}",
        fix="run `agon doctor`, then the same command: these answers are drawn again, and no other",
    )


def delete(folder: Path, names: Sequence[str]) -> None:
    """Delete the bouts and results of some systems."""
    for name in names:
        for path in (folder / f"{name}.jsonl", folder / f"{name}.json"):
            path.unlink(missing_ok=True)
