"""What a folder of runs holds, one line per run: its state, how far it is, and its score."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agon.errors import AgonError
from agon.eval.systems import headline
from agon.formatting import UNKNOWN, interval, not_graded, percent
from agon.report.headline import read_headline
from agon.rundir import RunDir
from agon.rundir.files import is_locked
from agon.rundir.find import runs_in
from agon.rundir.results import Measures, passes_of

State = Literal["running", "done", "stopped", "new", "damaged"]


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run, for a person."""

    path: str
    arm: str
    base: str
    state: State
    progress: str
    """Steps done, of how many where that is known."""
    score: str
    """On dev, at the first and the last evaluation."""
    before: str
    """On held-out problems before training, where that was measured."""
    held_out: str
    """The headline: on held-out problems, as the arm deploys, and in how many passes it answers."""


def overview(folder: Path) -> list[RunLine]:
    """Every run in a folder, the one that was touched last at the end."""
    runs = sorted(runs_in(folder), key=lambda path: (path / "config.yaml").stat().st_mtime)
    return [run_line(path) for path in runs]


def run_line(path: Path) -> RunLine:
    """One run as a line."""
    try:
        run = RunDir.open(path)
        config, points, steps = run.config, run.points, len(run.steps.records())
    except AgonError:
        return RunLine(str(path), UNKNOWN, UNKNOWN, "damaged", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    total, found = total_steps(run), read_headline(path, headline(config.rules()))
    measured = not config.eval.points or (bool(points) and points[-1].step == total)
    score = UNKNOWN if not points else f"{percent(points[0].score)} -> {percent(points[-1].score)}"
    return RunLine(
        path=str(path),
        arm=config.row,
        base=config.model.name,
        state=_state(path, steps, total, measured=measured),
        progress=f"{steps}" if total is None else f"{steps}/{total}",
        score=score if len(points) != 1 else percent(points[0].score),
        before=found.rate_before if found else UNKNOWN,
        held_out=_in_passes(found.after.measured) if found else UNKNOWN,
    )


def total_steps(run: RunDir) -> int | None:
    """Steps of the whole run, by its config and the number of its problems; None where the manifest has no count."""
    config, problems = run.config, run.manifest.data.counts.get("train")
    if problems is None:
        return config.train.max_steps
    whole = config.train.epochs * (problems // config.train.problems_per_step)
    return min(whole, config.train.max_steps or whole)


def _state(path: Path, steps: int, total: int | None, *, measured: bool) -> State:
    if is_locked(path / ".lock"):
        return "running"
    if measured and total is not None and steps >= total:
        return "done"
    return "stopped" if steps else "new"


def _in_passes(measured: Measures) -> str:
    passes = passes_of(measured)
    rate = f"{interval(measured.pass_rate)} in {passes} pass{'es' * (passes > 1)}"
    return "; ".join(filter(None, [rate, not_graded(measured)]))
