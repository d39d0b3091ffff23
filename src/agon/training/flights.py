"""Steps that are played ahead of the learner: they begin before it is done with those before, and draw while it works.

Play then runs on an event loop in a thread of its own; with nothing ahead it runs where it is awaited. Which versions
play a step depends on its number alone, so that a resumed run plays again what was in flight, and gets the same bouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from agon.engine.bridge import Bridge
from agon.types import Played

T = TypeVar("T")
Play = Callable[[], Coroutine[Any, Any, Played]]


class Flights:
    """Plays steps, up to `ahead` before they are asked for."""

    def __init__(self, ahead: int) -> None:
        self._bridge = Bridge("agon-play") if ahead else None
        self._flying: dict[int, Future[Played]] = {}

    def begin(self, step: int, play: Play) -> None:
        """Start a step, unless it was started; with nothing ahead, `land` does."""
        if self._bridge and step not in self._flying:
            self._flying[step] = self._bridge.submit(play())

    async def land(self, step: int, play: Play) -> Played:
        """Wait for a step."""
        if not self._bridge:
            return await play()
        self.begin(step, play)
        return await asyncio.wrap_future(self._flying.pop(step))

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Draw something else, on the loop that steps are played on: samplers batch what is on one loop."""
        return await (asyncio.wrap_future(self._bridge.submit(work)) if self._bridge else work)

    def close(self) -> None:
        """Cancel what is in flight; a second call does nothing."""
        if self._bridge:
            self._bridge.close()
