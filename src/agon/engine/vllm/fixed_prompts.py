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


@dataclass(frozen=True, slots=True)
class Probe:
    """Draws from any version that the engine has loaded."""

    sampler: VLLMSampler
    temperature: float

    def draw_without_restart(self, versions: Sequence[Version]) -> tuple[int, dict[Version, list[Tokens]]]:
        """Completions that all come from the running engine; the fleet bounds how often it restarts."""
        while True:
            restarts = self.sampler.restarts
            drawn = self.draw(versions)
            if self.sampler.restarts == restarts:
                return restarts, drawn

    def draw(self, versions: Sequence[Version], count: int = PROMPTS) -> dict[Version, list[Tokens]]:
        """Completions of every version on the first fixed prompts, all in one batch."""
        sampling = Sampling(self.temperature, 1.0, DRAWN)
        prompts = [self._prompt(number) for number in range(count)]
        draws = [
            Draw(ids, version, seed_for("canary", version, n), sampling)
            for version in versions
            for n, ids in enumerate(prompts)
        ]
        rows = zip(draws, self.sampler.draw_all(draws), strict=True)
        tokens = [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]
        return {version: tokens[n * count : (n + 1) * count] for n, version in enumerate(versions)}

    def _prompt(self, number: int) -> tuple[int, ...]:
        """A fixed prompt that fills whole blocks of the prefix cache, as far as the context allows."""
        renderer = self.sampler.renderer
        words = renderer.clip(" ".join(str(n * (number + 2)) for n in range(LENGTH)), LENGTH)
        ids = renderer.render(Prompt((Message("user", (Quote(words),)),))).ids
        return ids[: self.sampler.fleet.context - DRAWN]
