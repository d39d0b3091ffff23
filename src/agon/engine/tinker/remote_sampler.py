"""Sampler over a Tinker service: token ids in and out, one saved copy of the weights per version.

A folder that the learner exports holds no weights but their paths on the service. A pinned version gets an adapter of
its own there: some servers keep one set of weights per adapter, and drawing from an older copy would overwrite what is
being trained.
"""

from __future__ import annotations

from pathlib import Path

from agon.engine.protocol import Draw, EngineDown
from agon.engine.render import Renderer
from agon.engine.tinker.client import DrawClient, TinkerClient
from agon.engine.tinker.saved import REFERENCE, SavedWeights
from agon.engine.versions import Versions
from agon.errors import EngineError
from agon.types import BASE, Completion, Request, Version


class TinkerSampler:
    """Implements `agon.protocols.Sampler`."""

    def __init__(self, client: TinkerClient, base: str, renderer: Renderer, context: int) -> None:
        self.renderer = renderer
        self._client, self._context = client, context
        self._draws: dict[Version, DrawClient] = {BASE: client.base_sampler(base)}
        self._versions = Versions(self._load, self._unload, needs=REFERENCE)
        self._own: set[Version] = set()

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; the service batches what is in flight."""
        version = self._versions.resolve(request.seat)
        rendered = self.renderer.render(request.prompt)
        if len(rendered.ids) + request.sampling.max_tokens > self._context:
            raise EngineError(
                f"a prompt of {len(rendered.ids)} tokens and {request.sampling.max_tokens} more exceed a context of "
                f"{self._context}",
                fix="raise sampler.max_model_len, lower train.max_peek_tokens, or drop the longest problems",
            )
        draw = Draw(rendered.ids, version, request.seed, request.sampling)
        try:
            drawn = await self._draws[version].draw(draw, self.renderer.stop)
            drawn.check(draw, self.renderer.vocabulary)
        except EngineDown as error:
            raise EngineError(
                f"{error} ({version})", fix="see the server's log, then: agon train RUN --resume"
            ) from error
        return self.renderer.completion(rendered, version, drawn)

    def publish(self, version: Version, folder: Path) -> None:
        """Make what the service saved the latest version of its policy."""
        self._versions.publish(version, folder)

    def pin(self, version: Version, folder: Path) -> None:
        """Keep a version for good, in an adapter of its own that nothing trains."""
        if version not in self._own:
            saved = SavedWeights.read(folder)
            if saved.state is None:
                raise EngineError(f"{folder} names no state to pin {version} from", fix="pin first versions only")
            path = self._client.restore(saved.state).save_for_sampler(f"pinned-{version.digest}")
            self._versions.pin(version, folder)
            self._draws[version] = self._client.sampler(path)
            self._own.add(version)

    def clip(self, text: str, max_tokens: int) -> str:
        return self.renderer.clip(text, max_tokens)

    def close(self) -> None:
        """Nothing runs here; the service ends a session that is silent."""

    def _load(self, version: Version, folder: Path) -> None:
        self._draws[version] = self._client.sampler(SavedWeights.read(folder).sampler)

    def _unload(self, version: Version) -> None:
        del self._draws[version]
