"""What run directories hold for tables and figures: results of `agon eval`, points, and what training spent.

A result that is not finished or does not validate is skipped with a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from agon.config import Source
from agon.errors import RunDirError
from agon.eval.systems import headline
from agon.game.budget import Entry
from agon.rundir import RunDir
from agon.rundir.find import runs_in
from agon.rundir.records import Point, Record, StepRecord, read_record
from agon.rundir.results import AGAIN, EvalResult, PairResult

HELD_OUT = "held_out"
CONFIG = "config.yaml"
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Setting:
    """What two numbers of one table have in common: the base, and the problems it was trained on."""

    base: str
    data: str

    def __str__(self) -> str:
        return f"{self.base} on {self.data}"


@dataclass(frozen=True, slots=True)
class Spending:
    """What training drew, by stage."""

    steps: int = 0
    draft: Entry = field(default_factory=Entry)
    challenge: Entry = field(default_factory=Entry)

    @property
    def rollouts(self) -> int:
        return self.draft.rollouts + self.challenge.rollouts

    @property
    def generated(self) -> int:
        return self.draft.generated + self.challenge.generated

    @property
    def prefilled(self) -> int:
        return self.draft.prefilled + self.challenge.prefilled


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run as a report sees it."""

    name: str
    setting: Setting
    arm: str
    """The arm; of a base alone, the system that was evaluated."""
    seed: int
    headline: str
    """The system that represents the run in a table."""
    results: Mapping[tuple[str, str], EvalResult]
    """Complete results by (data, system)."""
    pairs: Mapping[str, PairResult] = field(default_factory=dict)
    """What is known of A and B together, by data."""
    points: Sequence[Point] = ()
    spending: Spending = field(default_factory=Spending)
    bonus_bites: float | None = None
    """Share of the groups of challenges whose advantages the bonus changed; None where none was paid."""
    bonus_weight: float | None = None
    """How much more it paid to be right against a wrong draft, mean over the steps that have one."""
    staleness: Sequence[int] = ()
    """Of every step, the updates between the versions that drew it and those that learnt from it."""
    problems_per_step: int = 0
    format_weight: float = 0.0
    notes: Sequence[str] = ()
    """What was skipped, and why."""


def collect(paths: Sequence[Path]) -> list[MeasuredRun]:
    """Read every run, and every run in a folder of runs; equal names get the name of their parent folder in front.

    A base that was evaluated without training joins the setting of a run that was measured on the same problems.
    """
    folders = list(dict.fromkeys(folder.resolve() for path in paths for folder in _run_folders(path)))
    trained = {folder: read_run(folder) for folder in folders if (folder / CONFIG).exists()}
    if not trained:
        read_run(paths[0])  # reports what is wrong with it
    bases = {folder: _base_alone(folder, list(trained.values())) for folder in folders if folder not in trained}
    runs = trained | {folder: run for folder, run in bases.items() if run}
    names = Counter(run.name for run in runs.values())
    first, *others = (
        replace(run, name=f"{folder.parent.name}/{run.name}") if names[run.name] > 1 else run
        for folder, run in runs.items()
    )
    skipped = [
        f"skipped {folder}: not a run, and no run was measured on its problems" for folder in bases.keys() - runs
    ]
    return [replace(first, notes=[*first.notes, *sorted(skipped)]), *others]


def _run_folders(path: Path) -> list[Path]:
    """The path itself if it is a run, otherwise every run in it and its folders, such as the cells of a matrix."""
    return runs_in(path, is_run=lambda folder: (folder / CONFIG).is_file() or (folder / "evals").is_dir()) or [path]


def _base_alone(folder: Path, runs: Sequence[MeasuredRun]) -> MeasuredRun | None:
    """Results of a base alone, in the setting of the first run with the same base and problems."""
    notes: list[str] = []
    results = _results(folder / "evals", notes)
    for (data, system), result in results.items():
        for run in runs:
            theirs = [other for (name, _), other in run.results.items() if name == data]
            if result.settings.base == run.setting.base and any(_same_problems(result, other) for other in theirs):
                seed = result.run.seed or 0
                return MeasuredRun(folder.name, run.setting, system, seed, system, results, notes=notes)
    return None


def _same_problems(one: EvalResult, two: EvalResult) -> bool:
    return bool(one.measured.outcomes) and one.measured.outcomes.keys() == two.measured.outcomes.keys()


def read_run(path: Path) -> MeasuredRun:
    """Read one run directory; results, points and steps may be absent."""
    run, notes = RunDir.open(path), list[str]()
    config = run.config
    steps = run.steps.records()
    pairs = {file.parent.name: _read(file, PairResult, notes) for file in sorted(path.glob("evals/*/pair.json"))}
    return MeasuredRun(
        name=path.resolve().name,
        setting=Setting(config.model.name, _problems(config.data.train)),
        arm=config.row,
        seed=config.train.seed,
        headline=headline(config.rules()),
        results=_results(path / "evals", notes),
        pairs={data: pair for data, pair in pairs.items() if pair},
        points=run.points,
        spending=spent(steps),
        bonus_bites=bonus_bites(steps),
        bonus_weight=bonus_weight(steps),
        staleness=[record.staleness for record in steps],
        problems_per_step=config.train.problems_per_step,
        format_weight=config.game.format_weight,
        notes=notes,
    )


def _problems(source: Source) -> str:
    """A name for the training problems: preset, environment or file, and its options."""
    options = (f"{key} {value}" for key, value in sorted(source.options.items()))
    return " ".join([source.named or Path(str(source.path)).name, *options])


def _results(folder: Path, notes: list[str]) -> dict[tuple[str, str], EvalResult]:
    results = {}
    for file in sorted(folder.glob("*/*.json")):
        result = None if file.name == "pair.json" else _read(file, EvalResult, notes)
        if result and result.complete:
            results[file.parent.name, result.system] = result
        elif result:
            notes.append(f"{file}: {result.done} of {result.of} trials are done; {AGAIN}")
    return results


def _read(file: Path, model: type[R], notes: list[str]) -> R | None:
    try:
        return read_record(file, model, fix="")
    except RunDirError as error:
        notes.append(str(error))
        return None


def spent(records: Iterable[StepRecord]) -> Spending:
    """Add up what training drew: rollouts, generated and prefilled tokens, from the ledger of every step."""
    steps, draft, challenge = 0, Entry(), Entry()
    for record in records:
        steps += 1
        for name, entry in record.ledger.items():
            (challenge if name.startswith("challenge/") else draft).add(entry)
    return Spending(steps, draft, challenge)


def bonus_bites(records: Iterable[StepRecord]) -> float | None:
    """The share of groups of challenges whose advantages the bonus changed; None where no step counted them."""
    counted = [(record.bonus_groups, record.competitive.groups) for record in records if record.competitive]
    known = [(biting, groups) for biting, groups in counted if biting is not None]
    return sum(biting for biting, _ in known) / sum(groups for _, groups in known) if known else None


def bonus_weight(records: Iterable[StepRecord]) -> float | None:
    """How much more it paid to be right against a wrong draft than against a right one, mean over steps."""
    weights = [record.bonus_weight for record in records if record.bonus_weight is not None]
    return fmean(weights) if weights else None
