"""Keeps engines running: one that dies, hangs or crawls is restarted with the versions that were live, and what it was
drawing is drawn again from the same seeds.

A fleet has one member today. When restarts do not help, EngineError stops the run; nothing was learnt from the step,
so the run resumes exactly. Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from agon.engine.protocol import SEE_LOG, Draw, DrawResult, Engine, EngineDown
from agon.errors import EngineError
from agon.types import Version

T = TypeVar("T")

RESTARTS = 3
"""Failures of the engine since the last loaded version after which the run stops."""
PATIENCE = 120.0
"""Seconds in which an engine with work must produce `RATE` tokens per second, and in which an adapter must load."""
RATE = 0.2
GRACE = 1.0
"""A Ctrl-C reaches the engine too and kills it: the run's own cancellation gets this long to arrive first."""
RESUME = "see the engine's log output above, then resume with: agon train RUN --resume"


class Fleet:
    """One engine with its live versions, its watchdog and a count of its restarts."""

    def __init__(self, engine: Engine, *, patience: float = PATIENCE) -> None:
        self.engine, self.restarts = engine, 0
        self._live: dict[Version, Path] = {}
        self._patience, self._watchdog = patience, Watchdog(engine, patience)
        self._recovery, self._failures, self._asleep = asyncio.Lock(), 0, False
        self._allowed = RESTARTS

    @property
    def context(self) -> int:
        """Tokens that fit in one sequence."""
        return self.engine.context

    async def start(self) -> None:
        """Start the engine; a first start that fails is not tried again."""
        try:
            await self.engine.start()
        except EngineDown as failure:
            raise EngineError(str(failure), fix=SEE_LOG) from failure
        self._watchdog.start()

    async def load(self, version: Version, folder: Path) -> None:
        """Make a version live, in every restarted engine too, until it is unloaded."""
        self._live[version] = folder
        try:
            await self._with_retries(lambda: self._in_time(self.engine.load(version, folder)))
        except EngineError:
            self._live.pop(version, None)
            raise
        self._failures = 0

    async def unload(self, version: Version) -> None:
        """Forget a version."""
        self._live.pop(version, None)
        await self._with_retries(lambda: self._in_time(self.engine.unload(version)))

    async def draw(self, draw: Draw, stop: frozenset[int], vocabulary: int) -> DrawResult:
        """Draw a completion, again after each restart; what cannot be one is a failure of the engine."""

        async def attempt() -> DrawResult:
            drawn = await self._watchdog.guard(self.engine.draw(draw, stop))
            drawn.check(draw, vocabulary)
            return drawn

        return await self._with_retries(attempt)

    async def sleep(self) -> None:
        """Release the engine's memory until the next draw or load."""
        if not self._asleep:
            await self._with_retries(lambda: self._in_time(self.engine.sleep()))
            self._asleep = True

    def give_up(self) -> None:
        """Restart the engine no more: the run stops, and a signal may have ended the engine too."""
        self._allowed = 0

    async def stop(self) -> None:
        """Stop the engine and leave no process behind."""
        self._watchdog.stop()
        await self.engine.stop()

    async def _with_retries(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try until it works, with a restarted engine after each failure, or until there were too many."""
        while True:
            async with self._recovery:  # a restart that is under way comes first
                restarts = self.restarts
            try:
                await self._wake()
                return await attempt()
            except EngineDown as failure:
                await self._restart_once(restarts, str(failure))

    async def _wake(self) -> None:
        if self._asleep:
            async with self._recovery:
                if self._asleep:
                    await self._in_time(self.engine.wake())
                    self._asleep = False

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wait_for(work, self._patience)
        except TimeoutError:
            raise EngineDown(f"no answer within {self._patience:.0f} s") from None

    async def _restart_once(self, restarts: int, reason: str) -> None:
        """Restart the engine, once for all callers whose work failed on the same one."""
        await asyncio.sleep(GRACE)
        async with self._recovery:
            while self.restarts == restarts:
                self._failures += 1
                if self._failures > self._allowed:
                    message = f"the engine failed {self._failures} times in one step; last reason: {reason}"
                    raise EngineError(message, fix=RESUME)
                try:
                    await self._restart()
                except EngineDown as failure:
                    reason = str(failure)
                    await asyncio.sleep(GRACE)  # a server that shuts down still reports that it is healthy

    async def _restart(self) -> None:
        self._watchdog.stop()
        self._watchdog.release("the engine was restarted")
        await self.engine.stop()
        await self.engine.start()
        for version, folder in list(self._live.items()):
            if folder.is_dir():  # a run removes folders of versions that it will not use again
                await self._in_time(self.engine.load(version, folder))
        self.restarts, self._asleep = self.restarts + 1, False
        self._watchdog.start()


class Watchdog:
    """Reports an engine as down that has work and produces next to nothing."""

    def __init__(self, engine: Engine, patience: float) -> None:
        self.drawing = 0
        """Completions that the engine is drawing."""
        self._engine, self._patience = engine, patience
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch an engine that has just started."""
        loop = asyncio.get_running_loop()
        self._down: asyncio.Future[str] = loop.create_future()
        self._task = loop.create_task(self._watch())
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        if self._task:
            self._task.cancel()

    def release(self, reason: str) -> None:
        """Report the engine as down to all that wait for it."""
        if not self._down.done():
            self._down.set_result(reason)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work of the engine; give it up as soon as the engine is reported as down."""
        down, task = self._down, asyncio.ensure_future(work)
        self.drawing += 1
        try:
            either: set[asyncio.Future[Any]] = {task, down}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if down.done():
                raise EngineDown(down.result())
            return task.result()
        finally:
            self.drawing -= 1
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Without a watchdog a hanging engine would be waited for without end: its failure is one of the engine."""
        if not task.cancelled() and (error := task.exception()):
            self.release(f"cannot watch the engine: {error!r}")

    async def _watch(self) -> None:
        loop, tick = asyncio.get_running_loop(), self._patience / 8
        waited, seen = 0.0, await self._engine.progress()
        while not self._down.done():
            before = loop.time()
            await asyncio.sleep(tick)
            # a long sleep means that this process was frozen, which says nothing about the engine
            waited += min(loop.time() - before, 2 * tick)
            made = await self._engine.progress()
            if not self.drawing or made - seen >= RATE * self._patience:
                waited, seen = 0.0, made
            elif waited >= self._patience:
                self.release(f"{made - seen} tokens in {waited:.0f} s")
