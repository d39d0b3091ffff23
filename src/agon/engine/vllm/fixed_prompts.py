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
    """Completions of some versions, by an engine that had been restarted so often."""

    restarts: int
    together: dict[Version, list[Tokens]]
    alone: dict[Version, list[Tokens]]


@dataclass(frozen=True, slots=True)
class Probe:
    """Draws from any version that the engine has loaded."""

    sampler: VLLMSampler
    temperature: float

    def draw_without_restart(self, versions: Sequence[Version]) -> Drawn:
        """Completions that all come from the running engine; the fleet bounds how often it restarts."""
        while True:
            restarts = self.sampler.restarts
            alone = {version: self.draw_alone(version) for version in versions}
            together = self.draw(versions)
            if self.sampler.restarts == restarts:
                return Drawn(restarts, together, alone)

    def draw(self, versions: Sequence[Version], count: int = PROMPTS) -> dict[Version, list[Tokens]]:
        """Completions of every version on the first fixed prompts, all in one batch."""
        sampling = Sampling(self.temperature, 1.0, DRAWN)
        prompts = [self._prompt(number) for number in range(count)]
        draws = [
            Draw(ids, version, seed_for("canary", version, n), sampling)
            for version in versions
            for n, ids in enumerate(prompts)
        ]
        tokens = self._tokens(draws)
        return {version: tokens[n * count : (n + 1) * count] for n, version in enumerate(versions)}

    def draw_alone(self, version: Version) -> list[Tokens]:
        """Completions drawn one after the other, with the same seeds for every version: see `exact_draws.py`."""
        sampling = Sampling(self.temperature, 1.0, ALONE)
        draws = [Draw(self._prompt(n)[-SHORT:], version, seed_for("canary alone", n), sampling) for n in range(PROMPTS)]
        return [tokens for draw in draws for tokens in self._tokens([draw])]

    def _tokens(self, draws: Sequence[Draw]) -> list[Tokens]:
        """Completions that are drawn together."""
        rows = zip(draws, self.sampler.draw_all(draws), strict=True)
        return [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]

    def _prompt(self, number: int) -> tuple[int, ...]:
        """A fixed prompt that fills whole blocks of the prefix cache, as far as the context allows."""
        renderer = self.sampler.renderer
        words = renderer.clip(" ".join(str(n * (number + 2)) for n in range(LENGTH)), LENGTH)
        ids = renderer.render(Prompt((Message("user", (Quote(words),)),))).ids
        return ids[: self.sampler.fleet.context - DRAWN]
