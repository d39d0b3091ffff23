"""The one rate that stands for a run, wherever it is shown: on held-out problems, as the arm deploys, in the direction
that dev chose; and the same before training, where `agon eval RUN --step 0` measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agon.errors import AgonError
from agon.eval.systems import TITLES
from agon.formatting import UNKNOWN, interval, not_graded
from agon.report.collect import HELD_OUT
from agon.rundir.records import read_record
from agon.rundir.results import EvalResult

BEFORE = f"{HELD_OUT}@0"
"""The folder of an evaluation of the first checkpoint."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What a run is worth after training, and before."""

    after: EvalResult
    before: EvalResult | None

    def __str__(self) -> str:
        measured = self.after.measured
        before = "not measured before training" if self.before is None else f"before training {self.rate_before}"
        how = "; ".join(filter(None, [self.system, before, not_graded(measured)]))
        return f"{interval(measured.pass_rate)} of {measured.problems} held-out problems right ({how})"

    @property
    def system(self) -> str:
        """How the run answers."""
        choice = self.after.direction
        if choice is None:
            return TITLES.get(self.after.system, self.after.system)
        return f"{TITLES[choice.chosen.value]}, as {choice.by} chose"

    @property
    def rate_before(self) -> str:
        return interval(self.before.measured.pass_rate) if self.before else UNKNOWN


def headline_of(results: Mapping[tuple[str, str], EvalResult], system: str) -> Headline | None:
    """From the complete results of a run by (data, system); None where the system it deploys was not measured."""
    after = results.get((HELD_OUT, system))
    return Headline(after, results.get((BEFORE, system))) if after and after.measured.pass_rate else None


def read_headline(run: Path, system: str) -> Headline | None:
    """The same from the two files alone; one that cannot be read counts as not measured."""
    results = {(data, system): _read(run / "evals" / data / f"{system}.json") for data in (HELD_OUT, BEFORE)}
    return headline_of({key: result for key, result in results.items() if result}, system)


def _read(file: Path) -> EvalResult | None:
    try:
        result = read_record(file, EvalResult, fix="") if file.is_file() else None
    except AgonError:
        return None
    return result if result and result.complete else None
