"""A verifier on the nodes of a cluster: each actor holds a whole one, and a row goes to the least busy of them.

A row whose actor is lost is judged by another, a few times; then its verdict is `infra`, which is masked and never a
wrong answer. A new actor takes the place of a lost one. May be used from any thread and any loop: the actors belong to
a loop of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agon.bridge import Bridge
from agon.cluster.actor import Actor
from agon.errors import AgonError, VerifierError
from agon.game.parse import well_formed
from agon.pool import Pool, Wanted, Worker, WorkerDown
from agon.protocols import Verifier
from agon.types import Completion, Problem, Reason, Verdict
from agon.verify import load_verifier
from agon_judge.sandbox.settings import SandboxSettings

TRIES = 4
"""Actors that a row may lose."""
PATIENCE = 300.0
"""Seconds in which an actor must judge a row, answer anything else, or find a node with room."""
AGAIN = 10.0
"""Seconds after which an actor is placed again that was lost before it was loaded: its node was dead already."""
STARTS = 20
"""Actors in a row that may be lost before they are loaded; then no other takes their place."""


class VerifierHost:
    """What an actor holds: the verifier of its node."""

    def __init__(self, name: str, sandbox: SandboxSettings | None, right: float = 1.0) -> None:
        self._verifier = load_verifier(name, sandbox=sandbox, right=right)

    async def ready(self) -> None:
        """Answers as soon as the actor has a node and the verifier is loaded."""

    async def judge(self, problem: Problem, completion: Completion) -> Verdict:
        return await self._verifier(problem, completion)

    async def self_test(self) -> list[str]:
        return await asyncio.to_thread(self._verifier.self_test)

    async def counters(self) -> dict[str, int]:
        return self._verifier.counters


class Seat(Worker):
    """The place of one actor; every start places a new actor.

    The first actors are asked at once, so that each gets its share of the rows. An actor that replaces another is asked
    when it is loaded: it may wait long for a node, while the other actors judge.
    """

    kind, unit = "verifier", "verdicts"

    def __init__(self, number: int, place: Callable[[], Actor], patience: float) -> None:
        super().__init__(number, patience=patience)
        self._place = place
        self.actor: Actor | None = None

    async def start(self) -> None:
        self.actor = self._place()
        if self.life:
            with suppress(AgonError):  # the verifier cannot work there: the next row says why
                await self.in_time(self.ask("ready"))
            self.failures = 0

    async def stop(self) -> None:
        if self.actor:
            self.actor.kill()

    async def ask(self, verb: str, *args: object) -> Any:
        assert self.actor is not None, "the worker was started"
        return await self.actor.ask(verb, *args)


class NodeVerifier(Verifier):
    """`place` starts an actor that holds a VerifierHost. None is started before the first row: of the processes of a
    run, not all judge."""

    def __init__(self, place: Callable[[], Actor], count: int, *, patience: float = PATIENCE) -> None:
        self._seats = [Seat(number, place, patience) for number in range(count)]
        self._pool = Pool(self._seats, pauses=(0.0, AGAIN), most=STARTS)
        closed = VerifierError("the verifier is closed", fix="create a new one with load_verifier()")
        self._bridge, self._patience = Bridge("agon-verifiers", closed), patience
        self._rows = self._moved = self._infra = 0

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        return await asyncio.wrap_future(self._bridge.submit(self._judge(problem, completion)))

    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        async def judged() -> list[Verdict]:
            return await asyncio.gather(*(self._judge(*pair) for pair in pairs))

        return self._bridge.call(judged())

    def self_test(self) -> list[str]:
        """What any of the actors gets wrong."""

        async def tested() -> list[str]:
            results = await asyncio.gather(*(self._ask(seat, "self_test") for seat in self._seats))
            return sorted({sentence for sentences in results for sentence in sentences})

        try:
            return self._bridge.call(tested())
        except WorkerDown as lost:
            raise VerifierError(str(lost), fix="see Ray's logs on the nodes, and `ray status`") from lost

    @property
    def counters(self) -> dict[str, int]:
        """The sum over all live actors, and our own: rows, and how often one moved to another actor."""
        total = Counter[str]()
        for counted in self._bridge.call(self._pool.each(lambda seat: seat.in_time(seat.ask("counters")))):
            total.update(counted)
        return {**total, "rows": self._rows, "moved": self._moved, "infra": total["infra"] + self._infra}

    def close(self) -> None:
        self._bridge.close(self._pool.stop)

    async def _judge(self, problem: Problem, completion: Completion) -> Verdict:
        self._rows += 1
        try:
            verdict: Verdict = await self._ask(None, "judge", problem, replace(completion, tokens=None))
        except WorkerDown as lost:
            self._infra += 1
            return Verdict(False, well_formed(completion), Reason.INFRA, str(lost)[:200])
        return verdict

    async def _ask(self, only: Seat | None, verb: str, *args: object) -> Any:
        """Ask the least busy actor, or that of one seat; again where it is lost, TRIES times in all."""
        self._pool.launch()
        reason = ""
        for _ in range(TRIES):
            try:
                async with self._pool.use(Wanted(lambda seat: only in (None, seat)), wait=self._patience) as seat:
                    return await seat.unless_down(seat.ask(verb, *args))
            except WorkerDown as lost:
                self._moved, reason = self._moved + 1, str(lost)
            except TimeoutError:
                reason = f"none was ready within {self._patience:.0f} s"
        raise WorkerDown(f"{TRIES} nodes were lost: {reason}")
