"""Cells on the nodes of a cluster: each is a task, which another node resumes when its own is lost.

Ray starts a lost task again, which may be too early: a node that it calls dead can still train. A run directory takes
one writer, so the second attempt waits for the first to let go of it (`local.py`), and resumes from its checkpoint.
Nodes must see the run directories under the same path, on a file system with locks.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agon.cluster.connection import NodeTask
from agon.matrix.cells import MatrixCell, cell
from agon.matrix.local import Say, run_all, run_cell

T = TypeVar("T")
SAVING = 120.0
"""Seconds that a cell may take to save when the matrix is stopped; afterwards it goes on saving by itself."""


NOTICE = 0.5
"""Seconds in which an interrupted cell notices it."""


class Running(Protocol):
    """As much of `agon.cluster.connection.Connection` as a matrix needs."""

    def run(self, work: Callable[..., str | None], *args: Any, gpus: int = 0) -> NodeTask: ...


async def run(made: Sequence[MatrixCell], slots: int, say: Say, cluster: Running) -> list[str]:
    """Do what is missing on the cluster, `slots` cells at a time; return what failed, one sentence each."""

    async def on_a_node(cell: MatrixCell, _: int) -> str | None:
        say(f"{cell.name}: waits for a node")
        where = (str(cell.source.resolve()), cell.overrides, cell.arm, cell.seed, str(cell.folder.parent.resolve()))
        task = cluster.run(work_on_node, str(Path.cwd()), *where, gpus=cell.gpus)
        result = asyncio.wrap_future(task.result)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            task.interrupt()
            for ended in (await asyncio.wait({result}, timeout=SAVING))[0]:
                ended.exception()  # that it was interrupted is known
            raise
        except Exception as error:
            return f"{cell.name}: {next(iter(str(error).strip().splitlines()), repr(error))}"

    return await run_all(made, slots, say, on_a_node)


def work_on_node(home: str, source: str, overrides: Sequence[str], arm: str, seed: int, out: str) -> str | None:
    """On a node: do what is left of a cell; the sentence that says what failed, or None."""
    os.chdir(home)  # paths on the command line are relative to it
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the node was started in the background
    found = cell(Path(source), overrides, arm, seed, Path(out))
    return asyncio.run(_noticing(run_cell(found, dict(os.environ), lambda sentence: None, tied=True)))


async def _noticing(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop that wakes now and then: Ray interrupts Python alone, which a loop in a wait does not notice."""

    async def wake() -> None:
        while True:  # noqa: ASYNC110 - no event is waited for
            await asyncio.sleep(NOTICE)

    waking = asyncio.create_task(wake())
    try:
        return await work
    finally:
        waking.cancel()
