"""One engine of a fleet: the versions that it holds, its sleep, and its draws."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agon.engine.protocol import Draw, DrawResult, Engine
from agon.errors import EngineError
from agon.pool import State, Worker
from agon.types import BASE, Version

__all__ = ["Member", "State"]

RATE = 0.2
"""Tokens per second that an engine with work must process."""
COLD = 5
"""Times the patience, until a started engine has drawn its first completion: kernels compile at their first use."""


class Member(Worker):
    """An engine in a pool. It loads the versions that are in `live` when it starts; the fleet changes them."""

    kind, unit = "engine", "tokens"

    def __init__(self, number: int, engine: Engine, patience: float, live: Mapping[Version, Path]) -> None:
        super().__init__(number, patience=patience, least=RATE * patience)
        self.engine, self.starting, self.held = engine, False, set[Version]()
        self.forgiven = 0
        """Tasks that it had done when its failures were forgiven."""
        self._live, self._asleep, self._waking = live, False, asyncio.Lock()

    async def progress(self) -> int:
        return await self.engine.progress()

    async def start(self) -> None:
        """Start the engine and load every live version, including those published meanwhile."""
        self.starting = True
        try:
            await self.engine.start()
            self._asleep, self.slack, self.held, seen = False, COLD, {BASE}, set[Version]()
            while missing := [version for version in self._live if version not in seen]:
                for version in missing:
                    seen.add(version)
                    folder = self._live.get(version)
                    if folder and folder.is_dir():  # a run removes folders of versions that it will not use again
                        await self.in_time(self.engine.load(version, folder))
                        self.held.add(version)
            self.held &= {BASE, *self._live}
        finally:
            self.starting = False

    async def stop(self) -> None:
        await self.engine.stop()

    async def load(self, version: Version, folder: Path) -> None:
        """Load a version, unless it is loaded."""
        life = self.life
        await self._wake()
        await self.in_time(self.engine.load(version, folder))
        if self.runs and self.life == life:
            self.held.add(version)

    async def unload(self, version: Version) -> None:
        self.held.discard(version)
        await self._wake()
        await self.in_time(self.engine.unload(version))

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """What differs between a version that it holds and the learner's file."""
        await self._wake()
        return await self.in_time(self.engine.attest(version, folder, digest))

    def can_draw(self, version: Version) -> bool:
        """Whether it holds a version. A version that is not live is refused by any member, instead of waited for."""
        return version in self.held or version not in self._live

    async def draw(self, draw: Draw, stop: frozenset[int], vocabulary: int) -> DrawResult:
        """Draw a completion; a result that no working engine returns is a failure of the engine."""
        if draw.version not in self.held:
            raise EngineError(f"{draw.version} is not loaded", fix="publish or pin it before sampling from it")

        async def awake() -> DrawResult:
            await self._wake()
            return await self.engine.draw(draw, stop)

        drawn = await self.unless_down(awake())
        self.slack = 1
        drawn.check(draw, vocabulary)
        return replace(drawn, member=self.number)

    async def sleep(self) -> None:
        """Release the engine's memory until the next draw or load."""
        if not self._asleep:
            await self.in_time(self.engine.sleep())
            self._asleep = True

    async def _wake(self) -> None:
        if self._asleep:
            async with self._waking:
                if self._asleep:
                    await self.in_time(self.engine.wake())
                    self._asleep = False
