"""Bouts to look at: from a run, its parquet files, or the bouts of an evaluation, all in the columns of `bouts/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.eval.systems import headline
from agon.formatting import percent, utf8
from agon.report.headline import read_headline
from agon.report.overview import total_steps
from agon.rundir import RunDir, read_bouts
from agon.rundir.bouts import bout_of, files_in
from agon.rundir.find import no_run, runs_near
from agon.rundir.health import symptoms
from agon.rundir.log import Log, parse
from agon.rundir.records import read_record
from agon.rundir.results import EvalResult
from agon.types import Bout
from agon_lens.logs import StepRange

BATCH = 512
FIX = "name a run, a result such as runs/NAME/evals/held_out/cascade.json, or a log: .parquet, .jsonl, or their folder"


@dataclass(frozen=True, slots=True)
class LoggedBout:
    """A bout as it was logged: `row` adds the step, the reward by term, the advantage and the prompt."""

    bout: Bout
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BoutSource:
    """What is shown: its name, a few facts about it, and its bouts in order."""

    name: str
    facts: tuple[str, ...]
    bouts: Iterator[LoggedBout]
    rewarded: bool = True


def open_source(path: Path, steps: StepRange | None = None) -> BoutSource:
    """Open a run directory, a folder or file of bouts, or a result of an evaluation."""
    if path.suffix in {".json", ".jsonl"}:
        return _evaluation(path)
    if not path.exists():
        raise no_run(path) if runs_near(path) else RunDirError(f"{path} does not exist", fix=FIX)
    facts = _facts(RunDir.open(path)) if (path / "config.yaml").is_file() else ()
    name = path.resolve().name if facts else f"{path.resolve().parent.name}/{path.name}"
    return BoutSource(utf8(name), facts, _training(path, steps or StepRange()))


def _training(path: Path, steps: StepRange) -> Iterator[LoggedBout]:
    for file in [path] if path.is_file() else _files(path, steps):
        for batch in read_bouts(file).to_batches(max_chunksize=BATCH):
            yield from _logged((row for row in batch.to_pylist() if row["step"] in steps), file)


def _files(path: Path, steps: StepRange) -> list[Path]:
    files = files_in(path / "bouts" if (path / "bouts").is_dir() else path)
    if not files:
        raise RunDirError(f"{path} has no bouts yet", fix=FIX)
    if not (wanted := [file for step, file in files.items() if step in steps]):
        message = f"{path} has no bouts of these steps: it has steps {min(files)} to {max(files)}"
        raise RunDirError(message, fix=f"agon view {path} --steps {min(files)}:{max(files)}")
    return wanted


def _facts(run: RunDir) -> tuple[str, ...]:
    config, steps, total = run.config, run.steps.records(), total_steps(run)
    found = symptoms(steps, run.points, ended=total is not None and len(steps) >= total, base=config.model.name)
    result = read_headline(run.path, headline(config.rules())) or _dev(run)
    warnings = (f"warning: {one.message}" for one in found)
    return (str(result), config.row, config.model.name, f"seed {config.train.seed}", *warnings)


def _dev(run: RunDir) -> str:
    """What is known of a run that was not evaluated on held-out problems."""
    points = run.points
    on_dev = f"; on dev {percent(points[0].score)} -> {percent(points[-1].score)}" if points else ""
    return f"not evaluated on held-out problems{on_dev}"


def _evaluation(path: Path) -> BoutSource:
    """The bouts of a result: in the files that it names, or a file of bouts itself."""
    files = [path]
    if path.suffix == ".json":
        names = read_record(path, EvalResult, FIX).records
        files = [path.parent / Path(name).name for name in names]
    for file in files:
        if not file.is_file():
            raise RunDirError(f"{file} does not exist", fix=FIX)
    bouts = (bout for file in files for bout in _logged(map(_row, Log(file).lines()), file))
    return BoutSource(utf8(f"{path.parent.name}/{path.stem}"), ("evaluation",), bouts, rewarded=False)


def _row(line: bytes) -> dict[str, Any]:
    """A line of an evaluation, which has no steps."""
    return {"step": 0, **(parse(line) or {})}


def _logged(rows: Iterable[Mapping[str, Any]], file: Path) -> Iterator[LoggedBout]:
    for row in rows:
        try:
            yield LoggedBout(bout_of(row), row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RunDirError(f"{file} holds a row that is not a bout: {reason}", fix=FIX) from error
