"""Cells on this machine, a few at a time, each stage in a process of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from agon.engine.devices import visible_devices
from agon.matrix.cells import MatrixCell
from agon.matrix.child import last_words, run_command
from agon.rundir.files import is_locked

POLL = 2.0
Say = Callable[[str], None]


async def run(made: Sequence[MatrixCell], slots: int, say: Say) -> list[str]:
    """Do what is missing, `slots` cells at a time; a failed cell stops no other. Returns what failed."""
    waiting = [cell for cell in made if cell.missing()]
    say(f"{len(made)} cells, {len(made) - len(waiting)} done, {len(waiting)} to do, {slots} at a time")
    failures: list[str] = []
    done = len(made) - len(waiting)
    queue = iter(waiting)

    async def slot(number: int) -> None:
        nonlocal done
        for cell in queue:
            failed = await _run_cell(cell, _environment(number, slots), say)
            done += failed is None
            failures.extend([failed] if failed else [])
            say(failed or f"{cell.name} is done, {done} of {len(made)}")

    async with asyncio.TaskGroup() as tasks:
        for number in range(min(slots, len(waiting))):
            tasks.create_task(slot(number))
    return failures


async def _run_cell(cell: MatrixCell, environment: dict[str, str], say: Say) -> str | None:
    """Train, then evaluate; the sentence that says what failed, or None."""
    await _free(cell, say)
    log = cell.folder.parent / "logs" / f"{cell.name}.log"
    for stage in cell.missing():
        say(f"{cell.name}: {stage}")
        code = await run_command(cell.command(stage), log, environment)
        if code:
            return f"{cell.name}: agon {stage} ended with code {code}; {last_words(log)} (full log: {log})"
    return None


async def _free(cell: MatrixCell, say: Say) -> None:
    """Wait for a process that an earlier, killed matrix left at work on this cell: its work is not repeated."""
    waiting = False
    while any(is_locked(path) for path in (cell.folder / ".lock", cell.folder / "evals" / "held_out" / ".lock")):
        if not waiting:
            say(f"{cell.name}: another process is at work on it, waiting")
            waiting = True
        await asyncio.sleep(POLL)


def _environment(number: int, slots: int) -> dict[str, str]:
    """A slot's share of the GPUs that are visible; slots take turns where there are more of them."""
    if not (visible := visible_devices()):
        return dict(os.environ)
    return os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(visible[number % len(visible) :: slots])}
