"""A cluster in this process: actors without Ray, that can be lost. CI has no raylet; evidence/ray_cluster.py has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

from agon.cluster.actor import Actor
from agon.cluster.shell import Shell


class Gone(Exception):
    """What Ray raises where an actor is lost, for those who cannot import it."""


class FakeHandle:
    """Implements `agon.cluster.actor.Handle`: the real shell on a loop of its own, as a node would be."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self.lost, self.killed = shell, asyncio.Event(), 0
        self.calls: list[str] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def ask(self, verb: str, *args: Any) -> Future[Any]:
        self.calls.append(verb)
        return asyncio.run_coroutine_threadsafe(self._unless_lost(self.shell.ask(verb, *args)), self._loop)

    async def stream(self, verb: str, items: list[Any]) -> AsyncIterator[tuple[int, Any]]:
        self.calls.append(f"{verb} x {len(items)}")
        answers = self.shell.stream(verb, items)
        while True:
            step = asyncio.run_coroutine_threadsafe(self._unless_lost(anext(answers, None)), self._loop)
            if (answer := await asyncio.wrap_future(step)) is None:
                return
            yield answer

    def lose(self) -> None:
        """End it, as a killed node would; whoever waits is told."""
        self._loop.call_soon_threadsafe(self.lost.set)

    def kill(self) -> None:
        self.killed += 1
        self.lose()

    async def _unless_lost(self, work: Any) -> Any:
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self.lost.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self.lost.is_set():
                raise Gone("The actor died.\nIts process was killed.")
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()


class FakeCluster:
    """Implements as much of `agon.cluster.connection.Connection` as engines and verifiers use."""

    def __init__(self) -> None:
        self.handles: list[FakeHandle] = []
        self.kept: list[object] = []
        self.gpus: list[int] = []

    def place(self, make: Callable[..., Any], *args: Any, gpus: int = 0) -> Actor:
        self.handles.append(FakeHandle(Shell(make, *args)))
        self.gpus.append(gpus)
        return Actor(self.handles[-1])

    def keep(self, value: object) -> object:
        self.kept.append(value)
        return value
