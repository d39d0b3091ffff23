"""Cells as one Slurm array: a script to read and submit. Nothing is submitted here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from agon.matrix.cells import MatrixCell
from agon.training.launch.slurm_file import AGAIN, REQUEUE

SCRIPT = """#!/bin/bash
#SBATCH --job-name=agon-matrix
#SBATCH --array=0-{last}%{slots}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
# Add what your cluster asks for, such as --partition, --account, --gres=gpu:{gpus}, --time.
#
# One task per cell; a task that is stopped saves, is requeued, and resumes where it stopped.
# When all have ended, this writes the report, or this file anew with what is missing:
#   {again}
cd {here} || exit 1
{requeue}case $SLURM_ARRAY_TASK_ID in
{cells}
esac
{after}"""


def script(made: Sequence[MatrixCell], slots: int, again: str) -> str:
    """The array script of the cells that are not done."""
    waiting = [cell for cell in made if cell.missing()]
    lines = [f"  {number}) {_line(cell)} ;;" for number, cell in enumerate(waiting)]
    return SCRIPT.format(
        last=len(waiting) - 1,
        slots=slots,
        gpus=waiting[0].gpus,
        log=shlex.quote(str(made[0].folder.parent / "logs" / "slurm-%a.log")),
        again=again,
        here=shlex.quote(str(Path.cwd())),
        requeue=REQUEUE,
        after=AGAIN,
        cells="\n".join(lines),
    )


def _line(cell: MatrixCell) -> str:
    return " && ".join(f"step {shlex.join(cell.command(stage, cell.gpus))}" for stage in cell.missing())
