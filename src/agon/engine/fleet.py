"""Several engines as one: a draw goes to the least busy one that holds its version, and what fails is drawn elsewhere.

A member that dies, hangs or crawls is restarted with the versions that are live; what it was drawing is drawn again
from the same seeds, at once if others serve. Where a canary checks members (`gated`), a restarted one draws for the
game only after that. One that keeps failing is put aside; when none is left, EngineError stops the run. Nothing was
learnt from the step, so the run resumes exactly. Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from agon.engine.member import Member, State
from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown, then_resume
from agon.errors import EngineError
from agon.types import BASE, Version

RESTARTS = 3
"""Failures of a member in one step after which it is put aside."""
PATIENCE = 120.0
"""Seconds in which an engine with work must process some tokens, and in which an adapter must load."""
GRACE = 1.0
"""A Ctrl-C reaches the engine too and kills it: the run's own cancellation gets this long to arrive first."""


class Fleet:
    """Engines with the versions that are live in all of them. With `on`, a call is about one member alone."""

    def __init__(self, *engines: Engine, patience: float = PATIENCE) -> None:
        self.members = [Member(number, engine, patience) for number, engine in enumerate(engines)]
        self.gated = False
        """Whether a restarted member waits for `admit` before it draws for the game."""
        self.notes: deque[str] = deque()
        """What happened to members, for whoever shows the run."""
        self._live: dict[Version, Path] = {}
        self._allowed, self._lost = RESTARTS, EngineError("no engine", fix="resume with: agon train RUN --resume")
        self._changed, self._in_use = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def context(self) -> int:
        """Tokens that fit in one sequence, wherever it is drawn."""
        left = [member for member in self.members if member.state is not State.ASIDE] or self.members
        return min(member.engine.context for member in left)

    @property
    def restarts(self) -> int:
        """How often members were restarted."""
        return sum(max(member.life - 1, 0) for member in self.members)

    async def start(self) -> None:
        """Start every engine; a first start that fails is not tried again."""
        self._in_use.set()
        try:
            await asyncio.gather(*(member.start({}) for member in self.members))
        except EngineDown as failure:
            raise EngineError(str(failure), fix=f"see {self.members[0].engine.logs}, or run `agon doctor`") from failure
        for member in self.members:
            member.state = State.UP

    async def load(self, version: Version, folder: Path, on: int | None = None) -> None:
        """Make a version live, in every restarted engine too, until it is unloaded."""
        if on is not None:
            return await self._on_one(on, lambda member: member.load(version, folder))
        for member in self.members:
            if member.state is State.UP:  # it served to the end of a step
                member.failures = 0
        self._live[version] = folder
        try:
            await self._on_all(lambda member: member.load(version, folder))
        except EngineError:
            self._live.pop(version, None)
            raise

    async def unload(self, version: Version, on: int | None = None) -> None:
        """Forget a version."""
        if on is not None:
            return await self._on_one(on, lambda member: member.unload(version))
        self._live.pop(version, None)
        await self._on_all(lambda member: member.unload(version))

    async def draw(self, draw: Draw, stop: frozenset[int], vocabulary: int, on: int | None = None) -> DrawResult:
        """Draw a completion, elsewhere or again where the engine fails; from a named member once, or EngineDown."""
        self._in_use.set()
        while True:
            member = await self._free(draw.version) if on is None else self._running(on)
            life = member.life
            try:
                return await member.draw(draw, stop, vocabulary)
            except EngineDown as failure:
                self._fail(member, life, str(failure))
                if on is not None:
                    raise

    async def rest(self, *, sleep: bool) -> None:
        """Start no engine until the next draw or load: the learner needs the memory; with `sleep`, release it too."""
        self._in_use.clear()
        if sleep:
            while any(member.starting for member in self.members):
                await self._changed.wait()
            await asyncio.gather(*(self._attempt(member, Member.sleep) for member in self.members if member.runs))

    async def returned(self) -> list[int]:
        """Wait until members run that have not been checked; EngineError when no member is left."""
        while not (waiting := [member.number for member in self.members if member.state is State.CHECKING]):
            self._demand_one()
            await self._changed.wait()
        return waiting

    async def admit(self, number: int, life: int) -> None:
        """Let a member draw for the game, unless it was restarted since it was checked."""
        member = self.members[number]
        if member.state is State.CHECKING and member.life == life:
            member.state = State.UP
            self.notes.append(f"engine {number} was restarted; its adapters are verified")
            self._notify()

    async def put_aside(self, number: int, error: EngineError) -> None:
        """Never draw from a member again."""
        member = self.members[number]
        if member.state is not State.ASIDE:
            member.take_down(error.message)
            member.state, self._lost = State.ASIDE, error
            left = sum(other.state is not State.ASIDE for other in self.members)
            self.notes.append(f"warning: engine {number} was put aside, {left} left: {error.message}")
            self._notify()
            self._begin(member.stop())

    def give_up(self) -> None:
        """Restart no engine any more: the run stops, and a signal may have ended the engines too."""
        self._allowed = 0

    async def stop(self) -> None:
        """Stop every engine and leave no process behind."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(member.stop() for member in self.members))

    # -- who does it ---------------------------------------------------------------------------------------------------

    async def _free(self, version: Version) -> Member:
        """The least busy member that draws from a version; wait for one to come back if there is none."""
        while not (able := [member for member in self.members if member.serves(version)]):
            self._demand_one()
            if version != BASE and version not in self._live:
                raise EngineError(f"{version} is not loaded", fix="publish or pin it before sampling from it")
            await self._changed.wait()
        return min(able, key=lambda member: member.busy)

    def _running(self, number: int) -> Member:
        member = self.members[number]
        if not member.runs:
            raise EngineDown(f"engine {number} is {member.state}")
        return member

    async def _on_one(self, number: int, work: Callable[[Member], Awaitable[None]]) -> None:
        self._in_use.set()
        if not await self._attempt(self._running(number), work):
            raise EngineDown(f"engine {number} failed")

    async def _on_all(self, work: Callable[[Member], Awaitable[None]]) -> None:
        """Do it on every member that runs; on one that comes back, if none did it."""
        self._in_use.set()
        while True:
            running = [member for member in self.members if member.runs]
            results = await asyncio.gather(*(self._attempt(m, work) for m in running), return_exceptions=True)
            if errors := [result for result in results if isinstance(result, BaseException)]:
                raise errors[0]
            if any(results):
                return
            while not any(member.runs for member in self.members):
                self._demand_one()
                await self._changed.wait()

    async def _attempt(self, member: Member, work: Callable[[Member], Awaitable[None]]) -> bool:
        life = member.life
        try:
            await work(member)
        except EngineDown as failure:
            self._fail(member, life, str(failure))
            return False
        return True

    def _demand_one(self) -> None:
        if all(member.state is State.ASIDE for member in self.members):
            raise EngineError(self._lost.message, fix=self._lost.fix)

    # -- members that fail ---------------------------------------------------------------------------------------------

    def _fail(self, member: Member, life: int, reason: str) -> None:
        """Take a member down, once for all whose work failed on it, and restart it in the background."""
        if member.runs and member.life == life:
            member.take_down(reason)
            self.notes.append(f"engine {member.number} failed: {reason}")
            self._begin(self._restart(member, reason))
            self._notify()

    async def _restart(self, member: Member, reason: str) -> None:
        """Restart a member until it runs, or until it has failed too often."""
        while member.state is State.DOWN:
            await asyncio.sleep(GRACE)  # also: a server that shuts down still reports that it is healthy
            member.failures += 1
            if member.failures > self._allowed:
                message = f"the engine failed {member.failures} times in one step; last reason: {reason}"
                return await self.put_aside(member.number, EngineError(message, fix=then_resume(member.engine.logs)))
            try:
                await member.stop()
                await self._in_use.wait()
                await member.start(self._live)
                if member.state is not State.DOWN:  # put aside meanwhile
                    return await member.stop()
                member.state = State.CHECKING if self.gated else State.UP
            except EngineDown as failure:
                reason = str(failure)
            except EngineError as error:
                return await self.put_aside(member.number, error)
            except Exception as error:  # nobody awaits this task: those that wait for the member would hang
                unknown = EngineError(f"the engine cannot be restarted: {error!r}", fix=then_resume(member.engine.logs))
                return await self.put_aside(member.number, unknown)
            self._notify()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _notify(self) -> None:
        """Wake whoever waits for a member to change."""
        self._changed.set()
        self._changed = asyncio.Event()
