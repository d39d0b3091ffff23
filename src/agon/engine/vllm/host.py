"""An engine in a process of its own, on this machine (`spawn.py`) or on some node of a cluster (`cluster/actor.py`).

That process holds a whole vLLM with its front end, whose work for every token would otherwise take turns with the
learner in one interpreter. Finished rows come back. What is lost with a process or a node is a failure of the engine
like any other: the fleet draws it elsewhere, and starts a new process.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agon.cluster.actor import Actor, ActorLost
from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown
from agon.engine.vllm.spawn import ProcessActor
from agon.engine.watch import INTERVAL
from agon.errors import AgonError
from agon.types import Version

ROOM = 1800.0
"""Seconds to wait for a node with room: one may be on its way."""
START = 1800.0
"""Seconds that an engine may take to load and to compile."""
STOP, PROGRESS = 30.0, 5.0
"""Seconds that a process may take to stop its engine, and to say how far it is."""

Files = Mapping[str, bytes]
"""The files of an adapter by name."""


class EngineHost:
    """What the process holds: its engine, and a folder for adapters that come as bytes."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._copies: Path | None = None
        self._folders: dict[Version, Path] = {}
        self._seen: dict[str, Sequence[int]] = {}

    async def placed(self) -> None:
        """Answers as soon as the process runs."""

    async def start(self) -> int:
        """Start the engine; return the tokens that fit in one sequence."""
        self._engine = self._make()
        await self._engine.start()
        return self._engine.context

    async def load(self, version: Version, files: Files | Path) -> None:
        """Load an adapter from a folder of this machine, or from bytes."""
        self._folders[version] = files if isinstance(files, Path) else self._written(version, files)
        await self.engine.load(version, self._folders[version])

    def _written(self, version: Version, files: Files) -> Path:
        self._copies = self._copies or Path(tempfile.mkdtemp(prefix="agon-adapters-"))
        folder = self._copies / version
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return folder

    async def unload(self, version: Version) -> None:
        await self.engine.unload(version)
        self._folders.pop(version, None)
        if self._copies:
            shutil.rmtree(self._copies / version, ignore_errors=True)

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
        if self._copies:
            shutil.rmtree(self._copies, ignore_errors=True)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise EngineDown("the engine is not running")
        return self._engine


class Keeping(Protocol):
    """As much of `agon.cluster.connection.Connection` as adapters need."""

    def keep(self, value: object) -> object: ...


class AdapterStore:
    """Adapters in the object store of a cluster: read and put once, sent to each node once."""

    def __init__(self, cluster: Keeping) -> None:
        self._cluster, self._kept = cluster, dict[Version, object]()

    def get(self, version: Version, folder: Path) -> object:
        if version not in self._kept:
            files = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}
            self._kept[version] = self._cluster.keep(files)
        return self._kept[version]

    def drop(self, version: Version) -> None:
        self._kept.pop(version, None)


class HostedEngine:
    """Implements `agon.engine.protocol.Engine` over a process that `place` starts, with an `EngineHost` in it.

    `adapters` is for nodes that do not see the learner's files.
    """

    def __init__(self, place: Callable[[], Actor | ProcessActor], adapters: AdapterStore | None = None) -> None:
        self.context = 0
        self.logs = "its log output above"
        if adapters is not None:
            self.logs = "Ray's logs on its node (session_latest/logs in Ray's temporary folder)"
        self._place, self._adapters = place, adapters
        self._actor: Actor | ProcessActor | None = None
        self._tokens = 0

    async def start(self) -> None:
        """Start a new process; on a cluster, wait for a node with room."""
        self._tokens = 0
        self._actor = self._place()
        try:
            await self._ask("placed", limit=ROOM)
            self.context = await self._ask("start", limit=START)
        except BaseException:
            await self.stop()
            raise

    async def load(self, version: Version, folder: Path) -> None:
        await self._ask("load", version, self._adapters.get(version, folder) if self._adapters else folder)

    async def unload(self, version: Version) -> None:
        if self._adapters:
            self._adapters.drop(version)
        await self._ask("unload", version)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """Compare there, with the file that it was loaded from; the digest says whether that is the learner's."""
        differing: list[str] | None = await self._ask("attest", version, digest)
        return differing

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """Draw there. Only who watches is told of tokens before the last."""
        watched = uuid.uuid4().hex if draw.watch else None
        drawing = self.actor.ask_together("draw", (replace(draw, watch=None), stop, watched))
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
    def actor(self) -> Actor | ProcessActor:
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
