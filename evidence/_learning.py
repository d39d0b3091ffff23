"""Whether a run learns: its reward over training, from a run directory that this revision made."""

from __future__ import annotations

import sys
from statistics import fmean

from _lib import commit
from agon import RunDir


def check_revision(run: RunDir) -> None:
    """Refuse a run that a different revision began: its numbers would be kept under the wrong one."""
    began = run.manifest.git
    if began is None or (began.revision, began.changed) != (commit()["commit"], False):
        sys.exit(f"{run.path.name} was begun at a different revision, or with changes: remove it and run again")


def rewards(run: RunDir) -> list[float]:
    """Mean correctness-and-format reward of all rollouts of a step, comparable across arms: 2 c + 0.5 phi."""
    return [
        fmean(2 * (stream.pass_rate or 0) + 0.5 * (stream.well_formed or 0) for stream in record.streams)
        for record in run.steps.records()
    ]
