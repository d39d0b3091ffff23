"""Sampler over vLLM: one base, both adapters live in the same batch, token ids in and out.

Engines (`host.py`: in processes of their own; `server.py`: a running server) are kept running by a fleet on an event
loop in a thread: publication is a plain call, and a sample may be awaited from any loop. Publication sends the adapter
alone, under a name and a path that were never used before; nothing is merged, and the base is never pushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agon.bridge import Bridge
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult
from agon.engine.render import Renderer
from agon.engine.versions import KEPT, Versions
from agon.engine.watch import watched
from agon.errors import EngineError
from agon.types import Completion, Request, Version

T = TypeVar("T")


class VLLMSampler:
    """Implements `agon.protocols.Sampler`."""

    def __init__(self, base_path: str, fleet: Fleet, *, sleeps: bool = False, kept: int = KEPT) -> None:
        self.renderer = Renderer.load(base_path)
        self.fleet = fleet
        self._versions, self._sleeps = Versions(self.load, self.unload, kept=kept), sleeps
        self._bridge = Bridge("agon-vllm")
        try:
            self._bridge.call(fleet.start())
        except BaseException:
            self.close()
            raise

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; the engine batches whatever is in flight, of both policies."""
        version = self._versions.resolve(request.seat)
        rendered = self.renderer.render(request.prompt)
        watch = watched(request, self.renderer)
        drawn = await self.draw(Draw(rendered.ids, version, request.seed, request.sampling, watch))
        return self.renderer.completion(rendered, version, drawn)

    async def draw(self, draw: Draw, on: int | None = None) -> DrawResult:
        """Draw from token ids, as many tokens as fit in the context; with `on`, from that member of the fleet."""
        room = min(draw.sampling.max_tokens, self.fleet.context - len(draw.ids))
        if room < 1:
            raise EngineError(
                f"a prompt of {len(draw.ids)} tokens leaves no room in a context of {self.fleet.context}",
                fix="raise sampler.max_model_len, lower train.max_peek_tokens, or drop the longest problems",
            )
        fitting = replace(draw, sampling=replace(draw.sampling, max_tokens=room))
        drawing = self.fleet.draw(fitting, self.renderer.stop, self.renderer.vocabulary, on)
        return await asyncio.wrap_future(self._bridge.submit_batched(drawing))

    async def draw_together(self, draws: Sequence[Draw], on: int | None = None) -> list[DrawResult]:
        """Draw in one batch."""
        return await asyncio.gather(*(self.draw(draw, on) for draw in draws))

    def draw_all(self, draws: Sequence[Draw], on: int | None = None) -> list[DrawResult]:
        """Draw in one batch and wait for all."""
        return self.submit(self.draw_together(draws, on)).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the fleet's loop."""
        return self._bridge.submit(work)

    @property
    def restarts(self) -> int:
        """How often engines were restarted."""
        return self.fleet.restarts

    def notes(self) -> list[str]:
        """What happened to engines since the last call."""
        return [self.fleet.notes.popleft() for _ in range(len(self.fleet.notes))]

    @property
    def live(self) -> Mapping[Version, Path]:
        """The versions that may be drawn from, and where each was loaded from."""
        return self._versions.live

    def publish(self, version: Version, folder: Path) -> None:
        """Load the adapter in `folder` as the latest version of its policy; drop what is older than the step before."""
        self._versions.publish(version, folder)

    def pin(self, version: Version, folder: Path) -> None:
        """Keep a version live for good, loading it if it is not."""
        self._versions.pin(version, folder)

    def load(self, version: Version, folder: Path) -> None:
        """Load an adapter; only `publish` and `pin` let requests name it."""
        self._bridge.call(self.fleet.load(version, folder.resolve()))

    def unload(self, version: Version) -> None:
        self._bridge.call(self.fleet.unload(version))

    def rest(self) -> None:
        """Start no engine until the next draw or load; if the sampler was built to sleep, release memory too."""
        self._bridge.call(self.fleet.rest(sleep=self._sleeps))

    def clip(self, text: str, max_tokens: int) -> str:
        return self.renderer.clip(text, max_tokens)

    def close(self) -> None:
        """Stop the engines and their thread; a second call does nothing."""
        self._bridge.close(self.fleet.stop)
