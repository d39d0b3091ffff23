"""An engine in a process of its own on this machine (`spawn.py`).

That process holds a whole vLLM with its front end, whose work for every token would otherwise take turns with the
learner in one interpreter. Finished rows come back. What is lost with a process is a failure of the engine like any
other: the fleet draws it elsewhere, and starts a new process.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown
from agon.engine.vllm.spawn import ActorLost, ProcessActor
from agon.engine.watch import INTERVAL
from agon.errors import AgonError
from agon.types import Version

START = 1800.0
"""Seconds that an engine may take to load and to compile."""
STOP, PROGRESS = 30.0, 5.0
"""Seconds that a process may take to stop its engine, and to say how far it is."""


class EngineHost:
    """What the process holds: its engine."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._folders: dict[Version, Path] = {}
        self._seen: dict[str, Sequence[int]] = {}

    async def start(self) -> int:
        """Start the engine; return the tokens that fit in one sequence."""
        self._engine = self._make()
        await self._engine.start()
        return self._engine.context

    async def load(self, version: Version, folder: Path) -> None:
        self._folders[version] = folder
        await self.engine.load(version, folder)

    async def unload(self, version: Version) -> None:
        await self.engine.unload(version)
        self._folders.pop(version, None)

    async def attest(self, version: Version, digest: str) -> list[str] | None:
        return await self.engine.attest(version, self._folders[version], digest)

    async def draw(self, asked: tuple[Draw, frozenset[int], str | None]) -> DrawResult:
        """Draw a completion; `seen` answers what a watched one has so far."""
        draw, stop, watched = asked
        if watched is None:
            return await self.engine.draw(draw, stop)
        try:
            return await self.engine.draw(replace(draw, watch=partial(self._seen.__setitem__, watched)), stop)
        finally:
            self._seen.pop(watched, None)

    async def seen(self, watched: str) -> Sequence[int]:
        return self._seen.get(watched, ())

    async def progress(self) -> int:
        return await self.engine.progress()

    async def sleep(self) -> None:
        await self.engine.sleep()

    async def wake(self) -> None:
        await self.engine.wake()

    async def stop(self) -> None:
        if self._engine is not None:
            await self._engine.stop()

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise EngineDown("the engine is not running")
        return self._engine


class HostedEngine:
    """Implements `agon.engine.protocol.Engine` over a process that `place` starts, with an `EngineHost` in it."""

    logs = "its log output above"

    def __init__(self, place: Callable[[], ProcessActor]) -> None:
        self.context = 0
        self._place = place
        self._actor: ProcessActor | None = None
        self._tokens = 0

    async def start(self) -> None:
        """Start a new process."""
        self._tokens = 0
        self._actor = self._place()
        try:
            self.context = await self._ask("start", limit=START)
        except BaseException:
            await self.stop()
            raise

    async def load(self, version: Version, folder: Path) -> None:
        await self._ask("load", version, folder)

    async def unload(self, version: Version) -> None:
        await self._ask("unload", version)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """Compare there, with the file that it was loaded from; the digest says whether that is the learner's."""
        differing: list[str] | None = await self._ask("attest", version, digest)
        return differing

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """Draw there. Only who watches is told of tokens before the last."""
        watched = uuid.uuid4().hex if draw.watch else None
        drawing = self.actor.ask("draw", (replace(draw, watch=None), stop, watched))
        if draw.watch is None:
            drawn: DrawResult = await drawing
            return drawn
        task = asyncio.ensure_future(drawing)
        try:
            while not (await asyncio.wait({task}, timeout=INTERVAL))[0]:
                if ids := await self._ask("seen", watched):
                    draw.watch(ids)
            return task.result()
        finally:
            task.cancel()

    async def progress(self) -> int:
        """Tokens so far, as it last said: a process that does not answer makes no progress."""
        with suppress(TimeoutError):
            self._tokens = await asyncio.wait_for(self._ask("progress"), PROGRESS)
        return self._tokens

    async def sleep(self) -> None:
        await self._ask("sleep")

    async def wake(self) -> None:
        await self._ask("wake")

    async def stop(self) -> None:
        """End it in a thread, so that other engines on this loop draw on."""
        actor, self._actor = self._actor, None
        if actor is not None:
            try:
                with suppress(ActorLost, AgonError, TimeoutError):
                    await asyncio.wait_for(actor.ask("stop"), STOP)
            finally:
                await asyncio.to_thread(actor.kill)

    @property
    def actor(self) -> ProcessActor:
        if self._actor is None:
            raise EngineDown("the engine is not running")
        return self._actor

    async def _ask(self, verb: str, *args: object, limit: float | None = None) -> Any:
        try:
            return await asyncio.wait_for(self.actor.ask(verb, *args), limit)
        except TimeoutError:
            raise EngineDown(f"the engine did not answer `{verb}` within {limit:.0f} s") from None


def in_own_process(make: Callable[[], Engine], devices: str | None = None) -> HostedEngine:
    """An engine that `make` builds, in a process of this machine; `devices` are its GPUs, such as 4,5; default: all."""
    return HostedEngine(partial(ProcessActor, devices, EngineHost, make))
