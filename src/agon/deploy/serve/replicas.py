"""Several vLLM servers: a stage goes to the least busy server, and a second stage goes before new drafts.

A server is up once it lists the adapters of its base and has drawn a token from each. It is down after three failures
in a row, or at once when it cannot be reached, is silent while it has work, or has lost an adapter. It is then tried
again as at the start, for as long as the gateway runs. No decision depends on which server drew the first stage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from agon.deploy.serve.upstream import Ask, DrawEnd, ReplicaFailed, RequestRejected, StageSilent, Take, Upstream
from agon.pool import Event, Pool, State, Worker
from agon.types import Policy, Sampling

FAILURES = 3
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 5.0)
"""Seconds before each try to bring a server back."""
log = logging.getLogger("agon.deploy.serve")


class Replica(Worker):
    """One server. `names` is what it calls the adapters; `probe` is a prompt to try them with."""

    unit = "events"

    def __init__(
        self, number: int, upstream: Upstream, names: Mapping[Policy, str], *, slots: int, probe: tuple[int, ...]
    ) -> None:
        super().__init__(number, patience=upstream.stall, slots=slots)
        self.upstream, self.names, self.probe, self.context = upstream, names, probe, 0

    @property
    def up(self) -> bool:
        return self.state is State.UP

    @property
    def has_work(self) -> bool:
        """A stage with ids has a time limit of its own, which does not run while its client reads slowly."""
        return bool(self.upstream.waiting)

    async def progress(self) -> int:
        return self.upstream.events

    async def start(self) -> None:
        """Check the names that the server serves, and draw a token from each adapter."""
        served, own = await self.upstream.models(), self.names.values()
        if missing := [name for name in own if name not in served]:
            raise ReplicaFailed(f"it does not serve {', '.join(missing)}")
        for name in own:
            await self.in_time(self._try(name))
        self.context, self.failures = min(served[name] for name in own) or max(served.values()), 0

    async def draw(self, ask: Ask, take: Take) -> DrawEnd:
        """Draw a completion; see `Upstream.draw`."""
        ending = await self.unless_down(self.upstream.draw(ask, take))
        self.failures = 0
        return ending

    async def _try(self, name: str) -> None:
        """One token, with priority if the server takes it: `--scheduling-policy priority`."""
        ask = Ask(name, self.probe, Sampling(0.0, 1.0, 1), 0, "probe", urgent=True)
        self.upstream.takes_priority = True
        try:
            with suppress(RequestRejected):
                await self.upstream.draw(ask, _nothing)
                return
            self.upstream.takes_priority = False
            await self.upstream.draw(ask, _nothing)
        except RequestRejected as error:
            raise ReplicaFailed(f"it refuses a prompt of one token: {str(error)[:200]}") from error
        except StageSilent as error:  # heard of before it went down: it is tried again
            raise ReplicaFailed("it fell silent", gone=True) from error


class Replicas(Pool[Replica]):
    """The servers."""

    def __init__(self, members: Sequence[Replica], changed: Callable[[Replica], None] = lambda replica: None) -> None:
        super().__init__(members, pauses=PAUSES, tolerance=FAILURES)
        self._on_change = changed

    @property
    def up(self) -> bool:
        """Whether there is a server."""
        return any(replica.up for replica in self.members)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def slots(self) -> int:
        """How many stages can run at once when all servers are up."""
        return sum(int(replica.slots) for replica in self.members)

    @property
    def context(self) -> int:
        """The length of a sequence that every server takes which is up; 0 while there is none."""
        return min(replica.context for replica in self.members if replica.up) if self.up else 0

    async def joined(self) -> None:
        """Wait until there has been a server."""
        await self.until(lambda: any(replica.life > 0 for replica in self.members))

    async def close(self) -> None:
        await self.stop()
        await asyncio.gather(*(replica.upstream.close() for replica in self.members))

    def report(self, worker: Replica, event: Event) -> None:
        facts = {"replica": worker.number, "url": worker.upstream.url, "reason": worker.reason}
        if event in ("up", "down"):
            self._on_change(worker)
        if event == "up":
            log.info("replica is up", extra={**facts, "reason": ""})
        elif event == "not ready":
            log.info("replica is not ready", extra=facts)
        elif event != "down":
            log.warning("replica failed", extra=facts)


async def _nothing(ids: tuple[int, ...]) -> None: ...
