"""A fleet over fake engines, and what is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult
from agon.types import BASE, Sampling, Version

from .engines import FakeEngine

A, B = Version("a@0-x"), Version("b@0-x")


def run(
    engines: FakeEngine | list[FakeEngine], scenario: Callable[[Fleet], Awaitable[None]], patience: float = 0.3
) -> Fleet:
    """A fleet, started and stopped around the scenario."""

    async def whole() -> Fleet:
        fleet = Fleet(*(engines if isinstance(engines, list) else [engines]), patience=patience)
        await fleet.start()
        try:
            await scenario(fleet)
        finally:
            await fleet.stop()
        return fleet

    return asyncio.run(whole())


def draw(fleet: Fleet, version: Version = BASE, seed: int = 0) -> Awaitable[DrawResult]:
    return fleet.draw(Draw((1, 2), version, seed, Sampling(max_tokens=8)), frozenset(), 100)
