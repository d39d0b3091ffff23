"""An engine without a model that draws at a fixed rate; processes import this file, so it is light."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from agon.engine.protocol import Draw, DrawResult
from agon.types import Version


class PacedEngine:
    """Implements `agon.engine.protocol.Engine`: a row of n tokens takes n / `rate` seconds, whatever else it draws.

    A row's seed is how many of its tokens were drawn before it began, so that rows can be at different points at first.
    The first log-prob of a row is minus the time at which the row was finished, on the clock of the machine.
    """

    context, logs = 1 << 20, "its log output above"

    def __init__(self, rate: float) -> None:
        self.rate, self.tokens = rate, 0

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        count = draw.sampling.max_tokens
        await asyncio.sleep((count - draw.seed) / self.rate)
        self.tokens += count
        ids = tuple(7 + n % 50 for n in range(count))
        logprobs = tuple(-0.25 - 0.001 * (n % 90) for n in range(1, count))
        return DrawResult(ids, (-time.monotonic(), *logprobs), "length")

    async def progress(self) -> int:
        return self.tokens

    async def attest(self, version: Version, folder: Path, digest: str) -> None: ...

    async def load(self, version: Version, folder: Path) -> None: ...

    async def unload(self, version: Version) -> None: ...

    async def start(self) -> None: ...

    async def sleep(self) -> None: ...

    async def wake(self) -> None: ...

    async def stop(self) -> None: ...
