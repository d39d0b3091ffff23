"""Sampler over vLLM: one base, both adapters live in the same batch, token ids in and out.

The engine (`local.py`: inside this process; `server.py`: a running server) is kept running by a fleet on an event loop
in a thread: publication is a plain call, and a sample may be awaited from any loop. Publication sends the adapter
alone, under a name and a path that were never used before; nothing is merged, and the base is never pushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agon.engine.bridge import Bridge
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult
from agon.engine.render import Renderer
from agon.engine.versions import Versions
from agon.engine.watch import watched
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Completion, Request, Version


class VLLMSampler:
    """Implements `agon.protocols.Sampler`."""

    def __init__(self, base_path: str, fleet: Fleet, *, sleeps: bool = False) -> None:
        self.renderer = Renderer.load(base_path)
        self.fleet = fleet
        self._versions, self._sleeps = Versions(self.load, self.unload), sleeps
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
        return Completion(
            text=self.renderer.text(drawn.ids),
            version=version,
            prompt_tokens=len(rendered.ids),
            generated_tokens=len(drawn.ids),
            finish=drawn.finish,
            opened=rendered.opened,
            tokens=Tokens(rendered.ids, drawn.ids, drawn.logprobs),
        )

    async def draw(self, draw: Draw) -> DrawResult:
        """Draw from token ids, as many tokens as fit in the context."""
        room = min(draw.sampling.max_tokens, self.fleet.context - len(draw.ids))
        if room < 1:
            raise EngineError(
                f"a prompt of {len(draw.ids)} tokens leaves no room in a context of {self.fleet.context}",
                fix="raise sampler.max_model_len, lower train.max_peek_tokens, or drop the longest problems",
            )
        fitting = replace(draw, sampling=replace(draw.sampling, max_tokens=room))
        drawing = self.fleet.draw(fitting, self.renderer.stop, self.renderer.vocabulary)
        return await asyncio.wrap_future(self._bridge.submit_batched(drawing))

    def draw_all(self, draws: Sequence[Draw]) -> list[DrawResult]:
        """Draw together and wait for all: for the canary, between steps."""

        async def together() -> list[DrawResult]:
            return await asyncio.gather(*(self.draw(draw) for draw in draws))

        return self._bridge.call(together())

    @property
    def restarts(self) -> int:
        """How often the engine was restarted."""
        return self.fleet.restarts

    def folder_of(self, version: Version) -> Path:
        """Where a live version was loaded from."""
        return self._versions.live[version]

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
        """Release the engine's memory until the next draw or load, if the sampler was built to sleep."""
        if self._sleeps:
            self._bridge.call(self.fleet.sleep())

    def clip(self, text: str, max_tokens: int) -> str:
        return self.renderer.clip(text, max_tokens)

    def close(self) -> None:
        """Stop the engine and its thread; a second call does nothing."""
        self._bridge.close(self.fleet.stop)
