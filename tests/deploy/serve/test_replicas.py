"""Servers of a gateway: when one is used, when it is given up, and how it comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from agon.deploy.serve import replicas as module
from agon.deploy.serve.replicas import Replica, Replicas
from agon.deploy.serve.upstream import Ask, DrawEnd, ReplicaFailed, RequestRejected, Take
from agon.pool import WorkerDown
from agon.types import Policy, Sampling
from tests.waiting import until

NAMES = {Policy.A: "a", Policy.B: "b"}
ASK = Ask("a", (1, 2), Sampling(0.0, 1.0, 4), 0, "id")


class FakeUpstream:
    """A server that draws at once; `reply` is raised or awaited instead."""

    url = "http://h:1"

    def __init__(self, stall: float = 20.0) -> None:
        self.stall, self.events, self.waiting, self.takes_priority = stall, 0, set[object](), False
        self.served = {"base": 900, "a": 700, "b": 800}
        self.probed, self.closed = list[tuple[str, bool]](), False
        self.reply: Callable[[], Awaitable[DrawEnd]] | Exception | None = None

    async def models(self) -> dict[str, int]:
        return self.served

    async def draw(self, ask: Ask, take: Take) -> DrawEnd:
        if ask.request_id == "probe":
            self.probed.append((ask.model, self.takes_priority))
        elif isinstance(self.reply, Exception):
            raise self.reply
        elif self.reply:
            return await self.reply()
        return DrawEnd("stop")

    async def close(self) -> None:
        self.closed = True


def run(
    upstreams: list[FakeUpstream],
    scenario: Callable[[Replicas], Awaitable[None]],
    changed: Callable[[Replica], None] = lambda replica: None,
) -> Replicas:
    """Servers that were joined, and closed after the scenario."""

    async def whole() -> Replicas:
        members = [Replica(n, upstream, NAMES, slots=4, probe=(1,)) for n, upstream in enumerate(upstreams)]  # type: ignore[arg-type]
        made = Replicas(members, changed)
        made.launch()
        try:
            await asyncio.wait_for(made.joined(), 20)
            await scenario(made)
        finally:
            await made.close()
        return made

    return asyncio.run(whole())


async def ask(pool: Replicas) -> Replica:
    async with pool.use() as replica:
        await replica.draw(ASK, module._nothing)
        return replica


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.02))


def test_a_server_is_up_once_it_has_drawn_from_each_adapter() -> None:
    upstream, changes = FakeUpstream(), list[tuple[int, bool]]()

    async def scenario(pool: Replicas) -> None:
        assert (pool.up, pool.slots, pool.context) == (True, 4, 700)
        assert upstream.probed == [("a", True), ("b", True)]

    run([upstream], scenario, lambda replica: changes.append((replica.number, replica.up)))
    assert changes == [(0, True)]
    assert upstream.closed


def test_a_server_without_an_adapter_joins_when_it_has_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agon.deploy.serve")
    late, well = FakeUpstream(), FakeUpstream()
    del late.served["b"]

    async def scenario(pool: Replicas) -> None:
        await asyncio.sleep(0.1)
        assert [replica.up for replica in pool.members] == [False, True]
        late.served["b"] = 500
        await until(lambda: pool.members[0].up)
        assert pool.context == 500

    run([late, well], scenario)
    reasons = [getattr(record, "reason", "") for record in caplog.records if record.msg == "replica is not ready"]
    assert reasons == ["it does not serve b"], "said once, however often it was tried"


def test_priority_is_left_out_for_a_server_that_refuses_it() -> None:
    class Plain(FakeUpstream):
        async def draw(self, ask: Ask, take: Take) -> DrawEnd:
            if self.takes_priority:
                raise RequestRejected("priority is not supported")
            return await super().draw(ask, take)

    upstream = Plain()

    async def scenario(pool: Replicas) -> None:
        await ask(pool)

    run([upstream], scenario)
    assert upstream.probed == [("a", False), ("b", False)]


def test_a_server_is_down_after_three_failures_in_a_row_and_at_once_when_it_is_gone() -> None:
    upstream, changes = FakeUpstream(), list[bool]()

    async def scenario(pool: Replicas) -> None:
        replica = pool.members[0]

        async def fail(failure: Exception) -> None:
            upstream.reply = failure
            with pytest.raises(type(failure)):
                await ask(pool)
            upstream.reply = None

        for _ in range(2):
            for _ in range(2):
                await fail(ReplicaFailed("the connection broke"))
            await ask(pool)
        await fail(RequestRejected("too long"))
        assert (replica.life, changes) == (1, [True]), "an answer in between, and a refusal is not a failure"
        for _ in range(3):
            await fail(ReplicaFailed("the connection broke"))
        assert not replica.up
        await until(lambda: replica.up)
        await fail(ReplicaFailed("it cannot be reached", gone=True))
        assert not replica.up
        await until(lambda: replica.up)

    run([upstream], scenario, lambda replica: changes.append(replica.up))
    assert changes == [True, False, True, False, True]


def test_answers_go_on_while_others_fail_and_end_when_their_server_is_gone() -> None:
    """Else one request that makes a server fail three times would cut off everybody else's answers there."""
    upstream, done = FakeUpstream(), asyncio.Event()

    async def slowly() -> DrawEnd:
        await done.wait()
        return DrawEnd("stop")

    async def scenario(pool: Replicas) -> None:
        upstream.reply = slowly
        answers = [asyncio.ensure_future(ask(pool)) for _ in range(2)]
        await until(lambda: pool.members[0].busy == 2)
        upstream.reply = ReplicaFailed("the connection broke")
        for _ in range(3):
            with pytest.raises(ReplicaFailed):
                await ask(pool)
        await until(lambda: pool.members[0].life == 2)
        done.set()
        assert await asyncio.gather(*answers) == [pool.members[0]] * 2
        done.clear()
        upstream.reply = slowly
        answer = asyncio.ensure_future(ask(pool))
        await until(lambda: pool.members[0].busy == 1)
        upstream.reply = ReplicaFailed("it cannot be reached", gone=True)
        with pytest.raises(ReplicaFailed):
            await ask(pool)
        with pytest.raises(WorkerDown, match="cannot be reached"):
            await asyncio.wait_for(answer, 20)

    run([upstream], scenario)


def test_a_server_is_silent_only_while_a_stage_waits_for_its_first_ids() -> None:
    """A stage that has ids has a time limit of its own, and a client that reads slowly is not a silent server."""
    upstream = FakeUpstream(stall=0.1)

    async def scenario(pool: Replicas) -> None:
        upstream.reply = asyncio.Event().wait  # type: ignore[assignment]
        reading = asyncio.ensure_future(ask(pool))
        await asyncio.sleep(0.5)
        assert pool.members[0].life == 1
        upstream.waiting.add(reading)
        with pytest.raises(WorkerDown, match="0 events in 0 s"):
            await asyncio.wait_for(reading, 20)
        upstream.waiting.clear()

    run([upstream], scenario)


def test_a_silent_server_does_not_hold_up_its_own_start() -> None:
    class Silent(FakeUpstream):
        silent = True

        async def draw(self, ask: Ask, take: Take) -> DrawEnd:
            if self.silent:
                await asyncio.Event().wait()
            return await super().draw(ask, take)

    silent, well = Silent(stall=0.1), FakeUpstream()

    async def scenario(pool: Replicas) -> None:
        await until(lambda: pool.members[0].reason == "no answer within 0 s")
        silent.silent = False
        await until(lambda: pool.members[0].up)

    run([silent, well], scenario)
