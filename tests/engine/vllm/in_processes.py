"""Objects that processes of a test hold. They import this file, so it must be light."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agon.engine.protocol import Draw, DrawResult
from agon.errors import ConfigError, EngineError
from agon.types import BASE, Version
from tests.engine.helpers.engines import FakeEngine

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
"""The command of a process that does nothing for ten minutes."""


class Thing:
    """Something that a process holds."""

    def __init__(self, factor: int = 2) -> None:
        if not factor:
            raise ConfigError("a factor is needed", fix="write one")
        self.factor, self.started, self.cancelled = factor, list[int](), 0

    async def times(self, value: int) -> int:
        self.started.append(value)
        return self.factor * value

    async def refuse(self) -> None:
        raise EngineError("no", fix="do something else")

    async def crash(self) -> None:
        raise OSError("no space left on device")

    async def hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1

    async def seen(self) -> tuple[list[int], int]:
        return self.started, self.cancelled

    async def environment(self) -> dict[str, str]:
        return dict(os.environ)

    async def modules(self) -> list[str]:
        return list(sys.modules)

    async def child(self) -> int:
        return (await asyncio.create_subprocess_exec(*SLEEP)).pid

    async def echo(self, value: Any) -> Any:
        return value


class Watchable(FakeEngine):
    """Shows its tokens, and ends when it was asked how far it is."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        if draw.watch:
            draw.watch([7, 7])
            await self.asked.wait()
        return await super().draw(draw, stop)

    async def progress(self) -> int:
        self.asked.set()
        return 0


class GoesSilent(FakeEngine):
    """Says how far it is until it has drawn twice."""

    async def progress(self) -> int:
        await asyncio.sleep(60 if self.tokens > 3 else 0)
        return await super().progress()


class HangsOnce(FakeEngine):
    """The first of its kind hangs while it starts; it has started a process by then."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    async def start(self) -> None:
        child = await asyncio.create_subprocess_exec(*SLEEP)
        first = not list(self.folder.iterdir())
        (self.folder / str(child.pid)).touch()
        if first:
            await asyncio.Event().wait()
        await super().start()


class Logging(FakeEngine):
    """Says what it was asked."""

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str]:
        return self.log if version == BASE else [str(folder), digest]


class KillsItself(FakeEngine):
    """Its process is killed while it draws, unless another was before."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        if not list(self.folder.iterdir()):
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().draw(draw, stop)
