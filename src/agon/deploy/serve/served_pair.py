"""The pair that a gateway serves, without an engine: settings, systems by model name, prompts as ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agon.deploy.pair_settings import PairBase, Settings, checked_base, settings_of, system_of
from agon.engine.render import Rendered, Renderer
from agon.game.cascade import System, peeks_in
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.rundir.pair import PairDir, read_pair
from agon.types import Message, Policy, Problem, Prompt

SLACK = 64
"""Tokens beyond the cap that escaping may add to a peek."""


@dataclass(frozen=True)
class ServedPair:
    folder: PairDir
    settings: Settings
    base: PairBase

    @classmethod
    def load(cls, path: Path, *, weights: bool) -> Self:
        """Read and check a pair; without weights, of the base only what a tokenizer needs is fetched."""
        folder = read_pair(path)
        settings = settings_of(path, folder.info, "vllm", None, None)
        return cls(folder, settings, checked_base(folder, settings, weights=weights))

    @property
    def renderer(self) -> Renderer:
        return self.base.renderer

    def system(self, model: str, direction: str | None) -> System:
        """Who answers under a model's name; KeyError for a name that is not served."""
        if model in ("a", "b"):
            return Policy(model)
        return {
            "agon": system_of(self.folder, direction),
            "agon-ab": (Policy.A, Policy.B),
            "agon-ba": (Policy.B, Policy.A),
        }[model]

    def render(self, history: tuple[Message, ...], prompt: Prompt) -> Rendered:
        """A prompt as token ids, after whatever came before the question."""
        return self.renderer.render(Prompt((*history, *prompt.messages)))

    def room(self, history: tuple[Message, ...], problem: Problem, system: System, context: int) -> int:
        """Tokens to keep for the longest prompt of an answer.

        A peek gets its cap, but at most a quarter of the context: where that is too little, the second stage fails.
        """
        peeks, reserved = peeks_in(system), min(self.settings.max_peek_tokens + SLACK, context // 4)
        prompt = challenge_prompt(problem, "") if peeks else draft_prompt(problem)
        return len(self.render(history, prompt).ids) + reserved * peeks

    def clip(self, text: str) -> str:
        """What fits of a peek."""
        return self.renderer.clip(text, self.settings.max_peek_tokens)
