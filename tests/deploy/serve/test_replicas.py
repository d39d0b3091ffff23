"""Who gets a slot: the least busy server, and a second stage before new drafts."""

from __future__ import annotations

import asyncio
from typing import Any

from agon.deploy.serve.replicas import Replicas
from agon.types import Policy


class Quiet:
    """A server that is never asked."""

    async def close(self) -> None:
        """Nothing is open."""


def replicas(count: int, slots: int) -> Replicas:
    quiet: list[Any] = [Quiet() for _ in range(count)]
    made = Replicas(quiet, dict.fromkeys(Policy, "x"), slots=slots, probe=(1,))
    for replica in made.all:
        replica.up = True
    return made


def test_a_second_stage_goes_before_drafts_that_wait() -> None:
    async def scenario() -> list[str]:
        pool, order = replicas(1, 1), []

        async def use(name: str, urgent: bool) -> None:
            async with pool.slot(urgent=urgent):
                order.append(name)
                await asyncio.sleep(0)

        async with pool.slot(urgent=False), asyncio.TaskGroup() as tasks:
            for name in ("draft 1", "draft 2", "challenge"):
                tasks.create_task(use(name, name == "challenge"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert pool.waiting == 3
            pool.all[0].slots = 2  # as if the holder had left
            pool._hand_out()
        return order

    assert asyncio.run(scenario()) == ["challenge", "draft 1", "draft 2"]


def test_the_least_busy_server_is_chosen_and_a_failed_one_avoided() -> None:
    async def scenario() -> None:
        pool = replicas(3, 4)
        pool.all[0].busy = 1
        async with pool.slot(urgent=False) as first, pool.slot(urgent=False, avoid=pool.all[2]) as second:
            assert first.number == 1
            assert second.number != 2 or pool.all[0].busy > 3

    asyncio.run(scenario())


def test_who_is_cancelled_while_waiting_takes_no_slot() -> None:
    async def scenario() -> None:
        pool = replicas(1, 1)

        async def use() -> None:
            async with pool.slot(urgent=False):
                await asyncio.sleep(10)

        async with pool.slot(urgent=False):
            waiting = [asyncio.create_task(use()) for _ in range(3)]
            await asyncio.sleep(0.01)
            for task in waiting:
                task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert pool.all[0].busy == 0
        async with asyncio.timeout(1), pool.slot(urgent=False):
            assert pool.all[0].busy == 1

    asyncio.run(scenario())
