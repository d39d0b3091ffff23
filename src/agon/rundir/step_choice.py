"""Which step of a run is meant (the last, the best on dev, or a number), and the pair that its checkpoint holds.

The paper's tables are the ends of its curves (section 5.1): the last step, whatever was better before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agon.errors import CheckpointError, InputError
from agon.rundir.adapter import check_adapter, plain_file
from agon.rundir.checkpoint import MANIFEST, folder_of, steps_in
from agon.rundir.directory import RunDir
from agon.rundir.pair import PairDir, PairInfo, read_pair
from agon.rundir.records import Point
from agon.types import Policy, Version

Step = int | Literal["last", "best"]


def best_point(points: Sequence[Point]) -> Point | None:
    """The point with the highest score on dev, the earliest of several; None where nothing was evaluated."""
    return max(points, key=lambda point: point.score, default=None)


def facts_at(info: PairInfo, step: int, versions: Mapping[Policy, Version], points: Sequence[Point]) -> PairInfo:
    """The facts of a pair, at a step: its direction is what dev chose there, or at the last point before it."""
    newest = max((point for point in points if point.step <= step), key=lambda point: point.step, default=None)
    changes = {
        "versions": versions,
        "step": step,
        "direction": newest.direction if newest else None,
        "dev_score": newest.score if newest and newest.step == step else None,
        "files": {},
    }
    return info.model_copy(update=changes)


def step_number(run: RunDir, step: Step) -> int:
    """The number of a step that has a checkpoint; any other is refused with those that have one."""
    steps, best = steps_in(run.checkpoints), best_point(run.points)
    if not steps:
        raise InputError(f"{run.path} has no checkpoint", fix=f"train it first: agon train {run.path} --resume")
    if step == "last":
        return steps[-1]
    if step == "best" and best is None:
        message = f"{run.path} has no best step: nothing was evaluated on dev (eval.points 0)"
        raise InputError(message, fix=f"choose from: {_named(steps, None)}")
    number = best.step if step == "best" and best else step
    if number not in steps:
        message = f"{run.path} has no checkpoint of step {number}"
        raise InputError(message, fix=f"choose from: {_named(steps, best)}")
    return int(number)


def _named(steps: Sequence[int], best: Point | None) -> str:
    """Steps for a person: 0, 12 (best), 24 (last)."""

    def names(step: int) -> list[str]:
        return ["best"] * (best is not None and step == best.step) + ["last"] * (step == steps[-1])

    return ", ".join(f"{step} ({', '.join(names(step))})" if names(step) else str(step) for step in steps)


def pair_at(run: RunDir, step: Step) -> PairDir:
    """The pair of a step, from its checkpoint; `pair/` says what it was trained on."""
    number = step_number(run, step)
    folder = folder_of(run.checkpoints, number)
    plain_file(folder, MANIFEST)
    try:
        saved = run.saved_state(number)
    except CheckpointError as error:
        fix = f"restore it from a copy of the run, or choose from: {_named(steps_in(run.checkpoints), None)}"
        raise CheckpointError(f"{folder}: {error.message}", fix=fix) from error
    for policy in Policy:
        check_adapter(folder / policy.value)
    return PairDir(folder, facts_at(read_pair(run.path).info, number, saved.run.versions, run.points))
