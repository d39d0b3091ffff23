"""Several engines as one: a draw goes to the least busy engine that holds its version.

An engine that fails is restarted with the versions that are live, and its draws are drawn elsewhere from the same
seeds. Where a canary checks engines (`gated`), a restarted engine draws for the game only after its canary held. When
no engine is left, EngineError stops the run. Nothing was learnt from the step, so the run resumes exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from agon.engine.member import Member
from agon.engine.protocol import Draw, DrawResult, Engine, then_resume
from agon.errors import EngineError
from agon.pool import Event, Pool, State, Wanted, WorkerDown
from agon.types import Version

RESTARTS = 3
"""Failures of a member after which it is put aside. They are forgiven in the next step if it drew anything since."""
PATIENCE = 120.0
"""Seconds in which an engine with work must process some tokens, and in which an adapter must load."""
GRACE = 1.0
"""Seconds before a restart. A Ctrl-C reaches the engine too and kills it: the run's own cancellation arrives first.
And a server that shuts down still reports that it is healthy."""


class Fleet(Pool[Member]):
    """Engines with the versions that are live in all of them. With `on`, a call is about one member alone."""

    def __init__(self, *engines: Engine, patience: float = PATIENCE) -> None:
        self._live: dict[Version, Path] = {}
        members = [Member(number, engine, patience, self._live) for number, engine in enumerate(engines)]
        super().__init__(members, pauses=(GRACE,), most=0)
        self.notes: deque[str] = deque()
        """What happened to members, for the display of the run."""

    @property
    def context(self) -> int:
        """Tokens that fit in one sequence on every member."""
        left = [member for member in self.members if member.state is not State.ASIDE] or self.members
        return min(member.engine.context for member in left)

    @property
    def restarts(self) -> int:
        """How often members were restarted."""
        return sum(max(member.life - 1, 0) for member in self.members)

    async def start(self) -> None:
        """Start every engine; a first start that fails is not tried again."""
        self.launch()
        await self.until(lambda: self._last is not None or all(member.runs for member in self.members))
        self.most = RESTARTS
        if self._last:
            member, cause = self._last
            fix = f"see {member.engine.logs}, or run `agon doctor`"
            raise EngineError(str(cause), fix=fix) if isinstance(cause, WorkerDown) else cause

    async def load(self, version: Version, folder: Path, on: int | None = None) -> None:
        """Make a version live, also in restarted engines, until it is unloaded."""
        if on is None:
            for member in self.members:
                if member.state is State.UP or member.done > member.forgiven:
                    member.failures, member.forgiven = 0, member.done
            self._live[version] = folder
        try:
            await self._do(lambda member: member.load(version, folder), on)
        except EngineError:
            if on is None:
                self._live.pop(version, None)
            raise

    async def unload(self, version: Version, on: int | None = None) -> None:
        """Forget a version."""
        if on is None:
            self._live.pop(version, None)
        await self._do(lambda member: member.unload(version), on)

    async def attest(self, version: Version, folder: Path, digest: str, on: int) -> list[str] | None:
        """What differs between a version in one engine and the learner's file; None if the engine cannot say."""
        async with self.use(on=on) as member:
            return await member.attest(version, folder, digest)

    async def draw(self, draw: Draw, stop: frozenset[int], vocabulary: int, on: int | None = None) -> DrawResult:
        """Draw a completion, elsewhere or again where an engine fails; from a named member once, or WorkerDown."""
        failed: Member | None = None
        while True:
            wanted = Wanted(lambda member: member.can_draw(draw.version), avoid=failed)
            try:
                async with self.use(wanted, on=on) as failed:
                    return await failed.draw(draw, stop, vocabulary)
            except WorkerDown:
                if on is not None:
                    raise

    async def rest(self, *, sleep: bool) -> None:
        """Start no engine until the next draw or load: the learner needs the memory. With `sleep`, release it too."""
        self.may_start.clear()
        if sleep:
            while any(member.starting for member in self.members):
                await self._changed.wait()
            await self.each(Member.sleep)

    async def _do(self, work: Callable[[Member], Awaitable[None]], on: int | None) -> None:
        """Do it on one member; or on every live one, and if there is none, on the first that restarts."""
        if on is not None:
            async with self.use(on=on) as member:
                return await work(member)
        self.may_start.set()
        while not await self.each(work):
            await self.until(lambda: any(member.runs for member in self.members))
        self._notify()

    def report(self, worker: Member, event: Event) -> None:
        if event == "down":
            self.notes.append(f"{worker} failed: {worker.reason}")
        elif event == "admitted":
            self.notes.append(f"{worker} was restarted; its adapters are verified")
        elif event == "aside":
            left = sum(member.state is not State.ASIDE for member in self.members)
            self.notes.append(f"warning: {worker} was put aside, {left} left: {worker.reason}")

    def error(self, worker: Member, cause: Exception) -> EngineError:
        if isinstance(cause, EngineError):
            return EngineError(cause.message, fix=cause.fix)
        often = f"the engine failed {worker.failures} times; last reason: {cause}"
        message = often if isinstance(cause, WorkerDown) else f"the engine cannot be restarted: {cause!r}"
        return EngineError(message, fix=then_resume(worker.engine.logs))
