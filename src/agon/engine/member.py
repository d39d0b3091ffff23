"""One engine of a fleet: watched while it draws, and started anew with the versions that are live.

It draws for the game only while it is up. After a restart it is first checked, if somebody checks (`Fleet.gated`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown
from agon.types import BASE, Version

T = TypeVar("T")

RATE = 0.2
"""Tokens per second that an engine with work must process."""
COLD = 5
"""Times the patience, until a started engine has drawn its first completion: kernels compile at their first use."""


class State(StrEnum):
    """Where a member stands: not running, running but not yet checked, drawing for all, or given up."""

    DOWN = "down"
    CHECKING = "checking"
    UP = "up"
    ASIDE = "aside"


class Member:
    """An engine with its state, the versions it holds, its watchdog and a count of its failures."""

    def __init__(self, number: int, engine: Engine, patience: float) -> None:
        self.number, self.engine, self.state = number, engine, State.DOWN
        self.life = 0
        """How often the engine was started; work that failed belongs to one life."""
        self.failures = 0
        """Failures since a version was loaded in all members while this one was up."""
        self.starting = False
        self.held: set[Version] = set()
        self.watchdog = Watchdog(engine, patience)
        self._patience, self._asleep, self._waking, self._drawn = patience, False, asyncio.Lock(), 0

    @property
    def runs(self) -> bool:
        """Whether it can be asked anything."""
        return self.state in (State.CHECKING, State.UP)

    def serves(self, version: Version) -> bool:
        """Whether the game may draw from this version here."""
        return self.state is State.UP and (version == BASE or version in self.held)

    @property
    def busy(self) -> tuple[int, int]:
        """What is being drawn here, then what has been: the least of all members is asked next."""
        return self.watchdog.drawing, self._drawn

    async def start(self, live: Mapping[Version, Path]) -> None:
        """Start the engine and load what is live, and what becomes live meanwhile."""
        self.starting = True
        try:
            await self.engine.start()
            self._asleep, self.held, seen = False, set(), set[Version]()
            while missing := [version for version in live if version not in seen]:
                for version in missing:
                    seen.add(version)
                    folder = live.get(version)
                    if folder and folder.is_dir():  # a run removes folders of versions that it will not use again
                        await self._in_time(self.engine.load(version, folder))
                        self.held.add(version)
            self.held &= live.keys()
            self.life += 1
            self.watchdog.start()
        finally:
            self.starting = False

    def take_down(self, reason: str) -> None:
        """Ask it nothing more, and report it as down to whoever waits for it."""
        self.state, self.held = State.DOWN, set()
        self.watchdog.stop()
        self.watchdog.release(reason)

    async def load(self, version: Version, folder: Path) -> None:
        """Load a version, unless it is loaded."""
        life = self.life
        await self._wake()
        await self._in_time(self.engine.load(version, folder))
        if self.runs and self.life == life:
            self.held.add(version)

    async def unload(self, version: Version) -> None:
        self.held.discard(version)
        await self._wake()
        await self._in_time(self.engine.unload(version))

    async def draw(self, draw: Draw, stop: frozenset[int], vocabulary: int) -> DrawResult:
        """Draw a completion; what cannot be one is a failure of the engine."""
        drawn = await self.watchdog.guard(self._draw(draw, stop))
        drawn.check(draw, vocabulary)
        self._drawn += 1
        return replace(drawn, member=self.number)

    async def _draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        await self._wake()
        return await self.engine.draw(draw, stop)

    async def sleep(self) -> None:
        """Release the engine's memory until the next draw or load."""
        if not self._asleep:
            await self._in_time(self.engine.sleep())
            self._asleep = True

    async def stop(self) -> None:
        """Stop the engine and leave no process behind."""
        self.watchdog.stop()
        await self.engine.stop()

    async def _wake(self) -> None:
        if self._asleep:
            async with self._waking:
                if self._asleep:
                    await self._in_time(self.engine.wake())
                    self._asleep = False

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wait_for(work, self._patience)
        except TimeoutError:
            raise EngineDown(f"no answer within {self._patience:.0f} s") from None


class Watchdog:
    """Reports an engine as down that has work and produces next to nothing."""

    def __init__(self, engine: Engine, patience: float) -> None:
        self.drawing = 0
        """Completions that the engine is drawing."""
        self._engine, self._patience, self._warm = engine, patience, False
        self._task: asyncio.Task[None] | None = None
        self._down: asyncio.Future[str] | None = None

    def start(self) -> None:
        """Watch an engine that has just started."""
        self._warm = False
        loop = asyncio.get_running_loop()
        self._down = loop.create_future()
        self._task = loop.create_task(self._watch(self._down))
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        if self._task:
            self._task.cancel()

    def release(self, reason: str) -> None:
        """Report the engine as down to all that wait for it."""
        if self._down and not self._down.done():
            self._down.set_result(reason)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work of the engine; give it up as soon as the engine is reported as down."""
        down, task = self._down, asyncio.ensure_future(work)
        assert down is not None, "the engine was started"
        self.drawing += 1
        try:
            either: set[asyncio.Future[Any]] = {task, down}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if down.done():
                raise EngineDown(down.result())
            result = task.result()
            self._warm = True
            return result
        finally:
            self.drawing -= 1
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Without a watchdog a hanging engine would be waited for without end: its failure is one of the engine."""
        if not task.cancelled() and (error := task.exception()):
            self.release(f"cannot watch the engine: {error!r}")

    async def _watch(self, down: asyncio.Future[str]) -> None:
        loop, tick = asyncio.get_running_loop(), self._patience / 8
        waited, seen, warm = 0.0, await self._engine.progress(), self._warm
        while not down.done():
            before = loop.time()
            await asyncio.sleep(tick)
            # a long sleep means that this process was frozen, which says nothing about the engine
            waited += min(loop.time() - before, 2 * tick)
            made = await self._engine.progress()
            patience = self._patience * (1 if self._warm else COLD)
            if not self.drawing or warm is not self._warm or made - seen >= RATE * patience:
                waited, seen, warm = 0.0, made, self._warm
            elif waited >= patience:
                self.release(f"{made - seen} tokens in {waited:.0f} s")
