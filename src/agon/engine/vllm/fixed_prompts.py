"""Completions on fixed prompts, drawn as in training: what the canary compares between steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agon.engine.protocol import Draw
from agon.engine.vllm.sampler import VLLMSampler
from agon.protocols import Tokens
from agon.types import Message, Prompt, Quote, Sampling, Version, seed_for

PROMPTS, LENGTH, DRAWN = 4, 160, 16
"""Fixed prompts, their tokens (more than a block of the prefix cache: 128 on CPUs), and the tokens drawn from each."""
ALONE, SHORT = 8, 15
"""Tokens drawn alone from the end of each prompt; it is shorter than any block, so that nothing of it is cached."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Completions of some versions, and the life of the engine in which they were begun."""

    life: int
    together: dict[Version, list[Tokens]]
    alone: dict[Version, list[Tokens]]


@dataclass(frozen=True, slots=True)
class Probe:
    """Draws from any version that one member of the fleet has loaded; WorkerDown when it fails meanwhile."""

    sampler: VLLMSampler
    temperature: float
    member: int = 0

    @property
    def life(self) -> int:
        """How often the engine was started."""
        return self.sampler.fleet.members[self.member].life

    async def drawing(self, versions: Sequence[Version]) -> Drawn:
        """What the canary compares of every version; runs on the fleet's loop."""
        life = self.life
        alone = {version: await self._alone(version) for version in versions}
        return Drawn(life, await self._together(versions, PROMPTS), alone)

    def draw(self, versions: Sequence[Version], count: int = PROMPTS) -> dict[Version, list[Tokens]]:
        """Completions of every version on the first fixed prompts, all in one batch."""
        return self.sampler.submit(self._together(versions, count)).result()

    def draw_alone(self, version: Version) -> list[Tokens]:
        """Completions drawn one after the other, with the same seeds for every version: see `exact_draws.py`."""
        return self.sampler.submit(self._alone(version)).result()

    async def _together(self, versions: Sequence[Version], count: int) -> dict[Version, list[Tokens]]:
        sampling = Sampling(self.temperature, 1.0, DRAWN)
        prompts = [self._prompt(number) for number in range(count)]
        draws = [
            Draw(ids, version, seed_for("canary", version, n), sampling)
            for version in versions
            for n, ids in enumerate(prompts)
        ]
        tokens = await self._tokens(draws)
        return {version: tokens[n * count : (n + 1) * count] for n, version in enumerate(versions)}

    async def _alone(self, version: Version) -> list[Tokens]:
        sampling = Sampling(self.temperature, 1.0, ALONE)
        draws = [Draw(self._prompt(n)[-SHORT:], version, seed_for("canary alone", n), sampling) for n in range(PROMPTS)]
        return [tokens for draw in draws for tokens in await self._tokens([draw])]

    async def _tokens(self, draws: Sequence[Draw]) -> list[Tokens]:
        """Completions that are drawn together."""
        rows = zip(draws, await self.sampler.draw_together(draws, self.member), strict=True)
        return [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]

    def _prompt(self, number: int) -> tuple[int, ...]:
        """A fixed prompt that fills whole blocks of the prefix cache, as far as the context allows."""
        renderer = self.sampler.renderer
        words = renderer.clip(" ".join(str(n * (number + 2)) for n in range(LENGTH)), LENGTH)
        ids = renderer.render(Prompt((Message("user", (Quote(words),)),))).ids
        return ids[: self.sampler.fleet.context - DRAWN]
