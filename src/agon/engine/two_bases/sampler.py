"""A sampler over two bases: each policy is drawn by the sampler of its own base, through its own chat template.

What passes between the policies is text. `BASE`, the bare base, is not drawn here: it would be either of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agon.errors import EngineError
from agon.protocols import Sampler
from agon.types import Completion, Policy, Request, Seat, Version


@dataclass(frozen=True, slots=True)
class TwoBaseSampler:
    """Implements `agon.protocols.Sampler`."""

    samplers: Mapping[Policy, Sampler]

    async def sample(self, request: Request) -> Completion:
        return await self._of(request.seat).sample(request)

    def publish(self, version: Version, folder: Path) -> None:
        self._of(version).publish(version, folder)

    def pin(self, version: Version, folder: Path) -> None:
        self._of(version).pin(version, folder)

    def clip(self, text: str, max_tokens: int) -> str:
        """What fits by both tokenizers: a peek is the same whoever reads it."""
        return min((sampler.clip(text, max_tokens) for sampler in self.samplers.values()), key=len)

    def close(self) -> None:
        for sampler in self.samplers.values():
            sampler.close()

    def _of(self, seat: Seat) -> Sampler:
        if seat.policy is None:
            raise EngineError(
                f"{seat} is drawn by no policy, and A and B have different bases",
                fix="evaluate each base by its own name: agon eval BASE --config CONFIG.yaml",
            )
        return self.samplers[seat.policy]
