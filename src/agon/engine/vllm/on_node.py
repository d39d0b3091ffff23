"""An engine on some node of a cluster: an actor there holds a whole vLLM, and adapters reach it without a shared disk.

Draws of one turn of the loop are one call, whose answers stream back. What is lost with a node is a failure of the
engine like any other: the fleet draws it elsewhere, and starts a new actor wherever there is room.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from agon.cluster.actor import Actor, ActorLost
from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown
from agon.errors import AgonError
from agon.types import Version

ROOM = 1800.0
"""Seconds to wait for a node with room: one may be on its way."""
START = 2100.0
"""Seconds that an engine may take to start there; it gives up earlier by itself, unless its node hangs."""
STOP, PROGRESS = 30.0, 5.0
"""Seconds that a node may take to stop an engine, and to say how far it is."""

Files = Mapping[str, bytes]
"""The files of an adapter by name."""


class Placing(Protocol):
    """As much of `agon.cluster.connection.Connection` as engines need."""

    def place(self, make: Callable[..., Any], *args: Any, gpus: int = 0) -> Actor: ...

    def keep(self, value: object) -> object: ...


class EngineHost:
    """What the actor holds: the engine of its node, and a folder of its own for adapters."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make, self._folder = make, Path(tempfile.mkdtemp(prefix="agon-adapters-"))
        self._engine: Engine | None = None

    async def placed(self) -> None:
        """Answers as soon as the actor has a node."""

    async def start(self) -> int:
        """Start the engine; return the tokens that fit in one sequence."""
        self._engine = self._make()
        await self._engine.start()
        return self._engine.context

    async def load(self, version: Version, files: Files) -> None:
        folder = self._folder / version
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        await self.engine.load(version, folder)

    async def unload(self, version: Version) -> None:
        await self.engine.unload(version)
        shutil.rmtree(self._folder / version, ignore_errors=True)

    async def attest(self, version: Version, digest: str) -> list[str] | None:
        return await self.engine.attest(version, self._folder / version, digest)

    async def draw(self, asked: tuple[Draw, frozenset[int]]) -> DrawResult:
        return await self.engine.draw(*asked)

    async def progress(self) -> int:
        return await self.engine.progress()

    async def stop(self) -> None:
        if self._engine is not None:
            await self._engine.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise EngineDown("the engine is not running")
        return self._engine


class AdapterStore:
    """Adapters in the object store: read and put once, sent to each node once."""

    def __init__(self, cluster: Placing) -> None:
        self._cluster, self._kept = cluster, dict[Version, object]()

    def get(self, version: Version, folder: Path) -> object:
        if version not in self._kept:
            files = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}
            self._kept[version] = self._cluster.keep(files)
        return self._kept[version]

    def drop(self, version: Version) -> None:
        self._kept.pop(version, None)


class NodeEngine:
    """Implements `agon.engine.protocol.Engine` over an actor; `make` is called on its node."""

    logs = "Ray's logs on its node (session_latest/logs in Ray's temporary folder)"

    def __init__(self, cluster: Placing, make: Callable[[], Engine], adapters: AdapterStore, gpus: int = 0) -> None:
        self.context = 0
        self._cluster, self._make, self._adapters, self._gpus = cluster, make, adapters, gpus
        self._actor: Actor | None = None
        self._tokens = 0

    async def start(self) -> None:
        """Place a new actor; it waits for a node with room."""
        self._tokens = 0
        self._actor = self._cluster.place(EngineHost, self._make, gpus=self._gpus)
        try:
            await self._ask("placed", limit=ROOM)
            self.context = await self._ask("start", limit=START)
        except BaseException:
            await self.stop()
            raise

    async def load(self, version: Version, folder: Path) -> None:
        await self._ask("load", version, self._adapters.get(version, folder))

    async def unload(self, version: Version) -> None:
        self._adapters.drop(version)
        await self._ask("unload", version)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """Compare there, with the node's own copy of the file; the digest says whether that is the learner's."""
        differing: list[str] | None = await self._ask("attest", version, digest)
        return differing

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """Draw there. Nobody can watch the tokens from here."""
        drawn: DrawResult = await self.actor.ask_together("draw", (replace(draw, watch=None), stop))
        return drawn

    async def progress(self) -> int:
        """Tokens so far, as it last said: a node that does not answer makes no progress."""
        with suppress(TimeoutError):
            self._tokens = await asyncio.wait_for(self._ask("progress"), PROGRESS)
        return self._tokens

    async def sleep(self) -> None:
        """Nothing to do: a node has memory of its own."""

    async def wake(self) -> None:
        """Nothing to do: it never slept."""

    async def stop(self) -> None:
        actor, self._actor = self._actor, None
        if actor is not None:
            try:
                with suppress(ActorLost, AgonError, TimeoutError):
                    await asyncio.wait_for(actor.ask("stop"), STOP)
            finally:
                actor.kill()

    @property
    def actor(self) -> Actor:
        if self._actor is None:
            raise EngineDown("the engine is not running")
        return self._actor

    async def _ask(self, verb: str, *args: object, limit: float | None = None) -> Any:
        try:
            return await asyncio.wait_for(self.actor.ask(verb, *args), limit)
        except TimeoutError:
            raise EngineDown(f"no node answered {verb} within {limit:.0f} s") from None
