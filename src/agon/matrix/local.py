"""Cells on this machine, a few at a time, each stage in a process of its own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from agon.engine.devices import visible_devices
from agon.errors import RunDirError
from agon.matrix.cells import MatrixCell, Stage
from agon.rundir.lock import locked

POLL = 2.0
PR_SET_PDEATHSIG = 1
Say = Callable[[str], None]


Work = Callable[[MatrixCell, int], Awaitable[str | None]]
"""Does a cell in a slot; the sentence that says what failed, or None."""


async def run(made: Sequence[MatrixCell], slots: int, say: Say) -> list[str]:
    """Do what is missing here, `slots` cells at a time; return what failed, one sentence each."""

    async def here(cell: MatrixCell, slot: int) -> str | None:
        return await run_cell(cell, _environment(slot, slots), say)

    return await run_all(made, slots, say, here)


async def run_all(made: Sequence[MatrixCell], slots: int, say: Say, work: Work) -> list[str]:
    """Do what is missing, `slots` cells at a time; a failed cell stops no other."""
    waiting = [cell for cell in made if cell.missing()]
    say(f"{len(made)} cells, {len(made) - len(waiting)} done, {len(waiting)} to do, {slots} at a time")
    failures: list[str] = []
    done = len(made) - len(waiting)
    queue = iter(waiting)

    async def slot(number: int) -> None:
        nonlocal done
        for cell in queue:
            failed = await work(cell, number)
            done += failed is None
            failures.extend([failed] if failed else [])
            say(failed or f"{cell.name} is done, {done} of {len(made)}")

    async with asyncio.TaskGroup() as tasks:
        for number in range(min(slots, len(waiting))):
            tasks.create_task(slot(number))
    return failures


async def run_cell(cell: MatrixCell, environment: dict[str, str], say: Say, *, tied: bool = False) -> str | None:
    """Train, then evaluate; the sentence that says what failed, or None. `tied`: what runs dies with this process."""
    await _free(cell, say)
    log = cell.folder.parent / "logs" / f"{cell.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    gpus = len(visible_devices(environment))
    for stage in cell.missing():
        say(f"{cell.name}: {stage}")
        title = shlex.join(cell.command(stage, gpus))
        code = await _process(_arguments(cell, stage, gpus), title, log, environment, tied)
        if code:
            return f"{cell.name}: agon {stage} ended with code {code}; {_last(log)} (full log: {log})"
    return None


def _arguments(cell: MatrixCell, stage: Stage, gpus: int) -> list[str]:
    """What follows `python` to run a stage of a cell that sees so many GPUs."""
    launcher = cell.launcher(stage, gpus)
    where = [str(cell.source), cell.arm, str(cell.seed), str(cell.folder.parent)]
    start = ["-m", "torch.distributed.run", *launcher] if launcher else ["-m"]
    return [*start, "agon.cli.cell", stage, *where, *cell.overrides]


async def _free(cell: MatrixCell, say: Say) -> None:
    """Wait for a process that an earlier, killed matrix left at work on this cell: its work is not repeated."""
    waiting = False
    while any(_held(path) for path in (cell.folder / ".lock", cell.folder / "evals" / "held_out" / ".lock")):
        if not waiting:
            say(f"{cell.name}: another process is at work on it, waiting")
            waiting = True
        await asyncio.sleep(POLL)


def _held(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with locked(path):
            return False
    except RunDirError:
        return True


async def _process(words: Sequence[str], title: str, log: Path, environment: dict[str, str], tied: bool) -> int:
    """Run a process with its output in the log; when we are stopped, make it save and stop, and wait for it."""
    with log.open("ab") as out:
        out.write(f"\n$ {title}\n".encode())
        out.flush()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
            preexec_fn=partial(_die_with_parent, os.getpid()) if tied else None,
        )
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise


def _die_with_parent(parent: int) -> None:
    """In a child: ask the kernel for a SIGTERM when the parent ends, however it ends; a run then saves and stops."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os._exit(128 + signal.SIGTERM)


def _environment(number: int, slots: int) -> dict[str, str]:
    """A slot's share of the GPUs that are visible; slots take turns where there are more of them."""
    if not (visible := visible_devices()):
        return dict(os.environ)
    return os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(visible[number % len(visible) :: slots])}


def _last(log: Path) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    began = max((number for number, line in enumerate(lines) if line.startswith("$ ")), default=0)
    errors = [line for line in lines[began:] if line.startswith(("error:", "fix:"))][-2:]
    return "; ".join(errors) or (lines[-1] if lines else "it printed nothing")
