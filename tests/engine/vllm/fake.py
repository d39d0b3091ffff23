"""An engine without a model: it echoes which adapter it was asked for, and can die, hang, crawl and get stuck."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from agon.engine.vllm.sampler import Draw, Drawn, EngineDown
from agon.errors import EngineError
from agon.types import BASE

WEIGHTS = {"one": 0.1, "two": 0.2, "three": 0.3}
"""What each adapter adds to every log-prob, by the name of its folder."""


def join_starting() -> None:
    """Wait for the threads in which engines start."""
    for thread in threading.enumerate():
        if thread.name == "agon-vllm-start":
            thread.join(20)


class FakeEngine:
    """Implements `agon.engine.vllm.sampler.Engine`. Every draw of the first `lives`, or load, ends in the fault."""

    def __init__(self, fault: str = "", lives: int = 0, context: int = 1024) -> None:
        self.context, self.fault, self.lives = context, fault, lives
        self.loaded: dict[str, Path] = {}
        self.starts = self.stops = self.tokens = 0
        self.log: list[str] = []

    async def start(self) -> None:
        self.starts += 1
        self.loaded.clear()

    async def load(self, version: str, folder: Path) -> None:
        self.log.append(f"load {version}")
        if self.fault == "stuck" and self.starts <= self.lives:
            await asyncio.Event().wait()
        self.loaded[version] = folder

    async def unload(self, version: str) -> None:
        self.log.append(f"unload {version}")
        del self.loaded[version]

    async def draw(self, draw: Draw, stop: frozenset[int]) -> Drawn:
        fault = self.fault if self.starts <= self.lives else ""
        if fault == "die":
            raise EngineDown("the engine's process died")
        if fault == "hang":
            await asyncio.Event().wait()
        if fault == "crawl":
            await self._crawl()
        if fault == "refuse":
            raise EngineError("refused")
        if draw.version != BASE and draw.version not in self.loaded:
            raise EngineError(f"{draw.version} is not loaded")
        count = draw.sampling.max_tokens
        self.tokens += count
        return Drawn((7,) * count, (self.logprob(draw.version),) * count, "length")

    def logprob(self, version: str) -> float:
        return -1.0 - (0.0 if version == BASE else WEIGHTS.get(self.loaded[version].name, 5.0))

    async def progress(self) -> int:
        return self.tokens

    async def sleep(self) -> None:
        self.log.append("sleep")

    async def wake(self) -> None:
        self.log.append("wake")

    async def stop(self) -> None:
        self.stops += 1

    async def _crawl(self) -> None:
        """A token now and then, for ever."""
        while True:
            await asyncio.sleep(0.05)
            self.tokens += 1


def tokenizer() -> PreTrainedTokenizerFast:
    from tests.engine.families import qwen3

    return qwen3()
