"""A verifier on the nodes of a cluster: each actor holds a whole one, and a row goes to the least busy of them.

A row whose actor is lost is judged by another, a few times; then its verdict is `infra`, which is masked and never a
wrong answer. A new actor takes the place of a lost one. May be used from any thread and any loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agon.cluster.actor import Actor, ActorLost
from agon.errors import VerifierError
from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.types import Completion, Problem, Reason, Verdict
from agon.verify import load_verifier
from agon_judge.sandbox.settings import SandboxSettings

T = TypeVar("T")
Pair = tuple[Problem, Completion]
TRIES = 4
"""Actors that a row may lose."""
PATIENCE = 300.0
"""Seconds in which an actor with work must judge a row."""
AGAIN = 10.0
"""Seconds after which an actor is placed again that was lost before it was loaded: its node was dead already."""
ASK = 60.0
"""Seconds that an actor may take to report its counters."""


class VerifierHost:
    """What an actor holds: the verifier of its node."""

    def __init__(self, name: str, sandbox: SandboxSettings | None) -> None:
        self._verifier = load_verifier(name, sandbox=sandbox)

    async def ready(self) -> None:
        """Answers as soon as the actor has a node and the verifier is loaded."""

    async def judge(self, problem: Problem, completion: Completion) -> Verdict:
        return await self._verifier(problem, completion)

    async def self_test(self) -> list[str]:
        return await asyncio.to_thread(self._verifier.self_test)

    async def counters(self) -> dict[str, int]:
        return self._verifier.counters


@dataclass(eq=False)
class _Seat:
    """The place of one actor, whichever holds it now."""

    actor: Actor
    busy: int = 0
    judged: int = 0
    answered: float = field(default_factory=time.monotonic)
    """When it last judged a row, or got one after it had none."""
    loading: Future[Any] | None = None
    """Of an actor that came later: ends when it has a node and is loaded."""

    def replace(self, actor: Actor) -> None:
        """Give the seat to a new actor."""
        self.actor, self.answered, self.loading = actor, time.monotonic(), actor.begin("ready")

    @property
    def failed(self) -> bool:
        """Whether its actor was lost before it was loaded, a while ago."""
        lost = self.loading is not None and self.loading.done() and self.loading.exception() is not None
        return lost and time.monotonic() - self.answered >= AGAIN

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The least is asked next; one that may still wait for a node only where there is no other."""
        waits = self.loading is not None and not (self.loading.done() and self.loading.exception() is None)
        return waits, self.busy, self.judged


class NodeVerifier(Verifier):
    """`place` starts an actor that holds a VerifierHost. None is started before the first row: of the processes of a
    run, not all judge."""

    def __init__(self, place: Callable[[], Actor], count: int, *, patience: float = PATIENCE) -> None:
        self._place, self._count, self._patience = place, count, patience
        self._gate, self._closed = threading.Lock(), False
        self._rows = self._moved = self._infra = 0
        self._seats: list[_Seat] = []

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        self._rows += 1
        sent, reason = replace(completion, tokens=None), ""
        for _ in range(TRIES):
            seat, actor = self._take()
            try:
                verdict: Verdict = await self._judged(seat, actor, problem, sent)
            except ActorLost as lost:
                reason = str(lost)
                self._lose(seat, actor)
            else:
                self._note(seat, actor)
                return verdict
            finally:
                with self._gate:
                    seat.busy -= 1
        self._infra += 1
        return Verdict(False, well_formed(completion), Reason.INFRA, f"{TRIES} nodes were lost: {reason}"[:200])

    def verify_many(self, pairs: Iterable[Pair]) -> list[Verdict]:
        async def all_of() -> list[Verdict]:
            return await asyncio.gather(*(self(*pair) for pair in pairs))

        return _wait(all_of)

    def self_test(self) -> list[str]:
        """What any of the actors gets wrong."""

        async def all_of() -> list[str]:
            with self._gate:
                seats = self._seated()
            found = await asyncio.gather(*(seat.actor.ask("self_test") for seat in seats))
            return sorted({sentence for sentences in found for sentence in sentences})

        return _wait(all_of)

    @property
    def counters(self) -> dict[str, int]:
        """Those of the actors that are alive, added up, and our own: rows, and those that moved to another actor."""

        async def one(actor: Actor) -> dict[str, int]:
            with suppress(ActorLost, TimeoutError):
                counted: dict[str, int] = await asyncio.wait_for(actor.ask("counters"), ASK)
                return counted
            return {}

        async def all_of() -> list[dict[str, int]]:
            return await asyncio.gather(*(one(seat.actor) for seat in self._seats))

        total = Counter[str]()
        for counted in _wait(all_of):
            total.update(counted)
        return {**total, "rows": self._rows, "moved": self._moved, "infra": total["infra"] + self._infra}

    def close(self) -> None:
        self._closed = True
        for seat in self._seats:
            seat.actor.kill()

    def _seated(self) -> list[_Seat]:
        """Every actor; called with the gate closed."""
        if not self._seats:
            self._seats = [_Seat(self._place()) for _ in range(self._count)]
        return self._seats

    def _take(self) -> tuple[_Seat, Actor]:
        """The least busy actor."""
        with self._gate:
            if self._closed:
                raise VerifierError("the verifier is closed", fix="create a new one with load_verifier()")
            for seat in self._seated():
                if seat.failed:
                    seat.replace(self._place())
            seat = min(self._seats, key=lambda seat: seat.rank)
            if not seat.busy:
                seat.answered = time.monotonic()
            seat.busy += 1
            return seat, seat.actor

    async def _judged(self, seat: _Seat, actor: Actor, problem: Problem, completion: Completion) -> Any:
        asked = asyncio.ensure_future(actor.ask("judge", problem, completion))
        try:
            while not (await asyncio.wait({asked}, timeout=self._patience))[0]:
                if seat.actor is not actor or time.monotonic() - seat.answered >= self._patience:
                    raise ActorLost(f"no verdict in {self._patience:.0f} s")
            return asked.result()
        finally:
            asked.cancel()

    def _note(self, seat: _Seat, actor: Actor) -> None:
        with self._gate:
            if seat.actor is actor:
                seat.judged, seat.answered = seat.judged + 1, time.monotonic()

    def _lose(self, seat: _Seat, actor: Actor) -> None:
        """Replace a lost actor, once for all whose rows it had."""
        with self._gate:
            self._moved += 1
            if seat.actor is not actor or self._closed:
                return
            actor.kill()
            seat.replace(self._place())


def _wait(work: Callable[[], Awaitable[T]]) -> T:
    """The result of a coroutine, for callers that block, inside a running loop too."""

    async def main() -> T:
        return await work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, main()).result()
