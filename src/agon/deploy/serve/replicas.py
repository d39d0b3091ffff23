"""Several vLLM servers: the least busy one that works gets the next stage, and a second stage goes before new drafts.

A server is up once it lists the adapters of its base and has drawn a token from each; it is down after three failures
in a row, or at once when it cannot be reached, falls silent while it has work, or no longer knows an adapter. While it
is down it is tried again as at the start. No decision depends on which server drew the first stage.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from agon.deploy.serve.upstream import Ask, ReplicaFailed, RequestRejected, Upstream
from agon.types import Policy, Sampling

FAILURES = 3
PROBE = 0.5
"""Seconds between two tries to bring a server back; twice as many after each that fails, up to SLOWEST."""
SLOWEST = 5.0
WATCH = 0.5
"""Seconds between two looks at what waits."""
log = logging.getLogger("agon.deploy.serve")


@dataclass(eq=False, slots=True)
class Replica:
    """One server and what we know of it."""

    number: int
    upstream: Upstream
    slots: int
    up: bool = False
    busy: int = 0
    failures: int = 0
    context: int = 0
    down: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it is down."""


@dataclass(order=True, slots=True)
class _Waiter:
    rank: tuple[bool, int]
    found: asyncio.Future[Replica] = field(compare=False)


class Replicas:
    """Hands out slots. `names` is what the servers call the adapters; `probe` is a prompt to try them with."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        names: Mapping[Policy, str],
        *,
        slots: int,
        probe: tuple[int, ...],
        changed: Callable[[Replica], None] = lambda replica: None,
        first: int = 0,
    ) -> None:
        self.names = names
        self.joined = asyncio.Event()
        """Set once a server has been up."""
        self.all = [Replica(number, upstream, slots) for number, upstream in enumerate(upstreams, first)]
        self._probe, self._changed = probe, changed
        self._waiters: list[_Waiter] = []
        self._count = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def up(self) -> bool:
        return any(replica.up for replica in self.all)

    @property
    def waiting(self) -> int:
        return sum(not waiter.found.done() for waiter in self._waiters)

    @property
    def slots(self) -> int:
        """How many stages can run at once when all servers are up."""
        return sum(replica.slots for replica in self.all)

    @property
    def context(self) -> int:
        """The length of a sequence that every server takes which is up."""
        return min((replica.context for replica in self.all if replica.up), default=0)

    def start(self) -> None:
        """Join the servers, and keep watching them."""
        for replica in self.all:
            replica.down.set()
            self._tasks.append(asyncio.create_task(self._revive(replica)))
        self._tasks.append(asyncio.create_task(self._watch()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self.all:
            await replica.upstream.close()

    @asynccontextmanager
    async def slot(
        self, *, urgent: bool, avoid: Replica | None = None, wait: float | None = None
    ) -> AsyncIterator[Replica]:
        """A slot on the least busy server; waits for one, urgent ones first, TimeoutError after `wait` seconds. A
        failure inside counts against the server."""
        async with asyncio.timeout(wait):
            replica = await self._acquire(urgent, avoid)
        try:
            yield replica
        except ReplicaFailed as failure:
            self._failed(replica, failure)
            raise
        else:
            replica.failures = 0
        finally:
            replica.busy -= 1
            self._hand_out()

    async def _acquire(self, urgent: bool, avoid: Replica | None) -> Replica:
        ahead = any(not waiter.found.done() and (urgent <= (not waiter.rank[0])) for waiter in self._waiters)
        if not ahead and (replica := self._free(avoid)):
            replica.busy += 1
            return replica
        waiter = _Waiter((not urgent, next(self._count)), asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiters, waiter)
        try:
            return await waiter.found
        except asyncio.CancelledError:
            if waiter.found.done() and not waiter.found.cancelled():
                waiter.found.result().busy -= 1
                self._hand_out()
            raise

    def _free(self, avoid: Replica | None = None) -> Replica | None:
        free = [replica for replica in self.all if replica.up and replica.busy < replica.slots]
        return min(free, key=lambda replica: (replica is avoid, replica.busy), default=None)

    def _hand_out(self) -> None:
        while self._waiters:
            if not self._waiters[0].found.done():
                if (replica := self._free()) is None:
                    return
                replica.busy += 1
                self._waiters[0].found.set_result(replica)
            heapq.heappop(self._waiters)

    def _failed(self, replica: Replica, failure: ReplicaFailed) -> None:
        replica.failures += 1
        facts = {"replica": replica.number, "url": replica.upstream.url}
        log.warning("replica failed", extra={**facts, "reason": str(failure)})
        if replica.up and (failure.gone or replica.failures >= FAILURES):
            replica.up = False
            replica.down.set()
            self._changed(replica)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            for replica in self.all:
                replica.upstream.check_progress()

    async def _revive(self, replica: Replica) -> None:
        """Whenever a server is down, try it until it works."""
        while True:
            await replica.down.wait()
            pause, said = PROBE, ""
            while not replica.up:
                try:
                    await self._join(replica)
                except (ReplicaFailed, RequestRejected) as failure:
                    if str(failure) != said:
                        said, facts = str(failure), {"replica": replica.number, "url": replica.upstream.url}
                        log.info("replica is not ready", extra={**facts, "reason": said})
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, SLOWEST)
            log.info("replica is up", extra={"replica": replica.number, "url": replica.upstream.url})

    async def _join(self, replica: Replica) -> None:
        """Check the names that a server serves, and draw a token from each adapter."""
        served = await replica.upstream.models()
        if missing := [name for name in self.names.values() if name not in served]:
            raise ReplicaFailed(f"it does not serve {', '.join(missing)}", gone=True)
        for name in self.names.values():
            await self._try(replica.upstream, name)
        replica.context = min(served[name] for name in self.names.values()) or max(served.values())
        replica.up, replica.failures = True, 0
        replica.down.clear()
        self.joined.set()
        self._changed(replica)
        self._hand_out()

    async def _try(self, upstream: Upstream, name: str) -> None:
        """One token, with priority if the server takes it: `--scheduling-policy priority`."""
        ask = Ask(name, self._probe, Sampling(0.0, 1.0, 1), 0, "probe", urgent=True)
        upstream.takes_priority = True
        try:
            with suppress(RequestRejected):
                await upstream.draw(ask, _nothing)
                return
            upstream.takes_priority = False
            await upstream.draw(ask, _nothing)
        except RequestRejected as error:
            raise ReplicaFailed(f"it refuses a prompt of one token: {str(error)[:200]}", gone=True) from error


class Pools:
    """The servers of each policy: one pool, unless A and B have different bases."""

    def __init__(self, pools: Mapping[Policy, Replicas]) -> None:
        self._pools, self._each = pools, list(dict.fromkeys(pools.values()))

    def __getitem__(self, policy: Policy) -> Replicas:
        return self._pools[policy]

    @property
    def up(self) -> bool:
        return all(pool.up for pool in self._each)

    @property
    def waiting(self) -> int:
        return sum(pool.waiting for pool in self._each)

    @property
    def slots(self) -> int:
        """How many stages can run at once when all servers are up."""
        return sum(pool.slots for pool in self._each)

    @property
    def context(self) -> int:
        """The length of a sequence that every server takes which is up."""
        return min(pool.context for pool in self._each)

    async def joined(self) -> None:
        """Wait until each policy has had a server."""
        for pool in self._each:
            await pool.joined.wait()

    def start(self) -> None:
        for pool in self._each:
            pool.start()

    async def close(self) -> None:
        for pool in self._each:
            await pool.close()


async def _nothing(ids: tuple[int, ...]) -> None: ...
