"""The pair that a gateway serves, without an engine: settings, systems by model name, prompts as ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agon.deploy.pair_settings import PairBase, Settings, checked_bases, settings_of, system_of
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
    bases: dict[Policy, PairBase]
    """The base of each policy; the same for both unless B has one of its own."""

    @classmethod
    def load(cls, path: Path, *, weights: bool) -> Self:
        """Read and check a pair; without weights, of the base only what a tokenizer needs is fetched."""
        folder = read_pair(path)
        settings = settings_of(path, folder.info, "vllm", None, None)
        bases = checked_bases(folder, settings, weights=weights)
        return cls(folder, settings, {policy: bases.get(policy, bases[Policy.A]) for policy in Policy})

    @property
    def sharing(self) -> list[list[Policy]]:
        """The policies of each base: a server has one base."""
        together = self.bases[Policy.A] is self.bases[Policy.B]
        return [list(Policy)] if together else [[policy] for policy in Policy]

    def renderer(self, policy: Policy) -> Renderer:
        return self.bases[policy].renderer

    def system(self, model: str, direction: str | None) -> System:
        """Who answers under a model's name; KeyError for a name that is not served."""
        if model in ("a", "b"):
            return Policy(model)
        return {
            "agon": system_of(self.folder, direction),
            "agon-ab": (Policy.A, Policy.B),
            "agon-ba": (Policy.B, Policy.A),
        }[model]

    def render(self, history: tuple[Message, ...], prompt: Prompt, policy: Policy) -> Rendered:
        """A prompt as a policy's token ids, after whatever came before the question."""
        return self.renderer(policy).render(Prompt((*history, *prompt.messages)))

    def room(self, history: tuple[Message, ...], problem: Problem, system: System, context: int) -> int:
        """Tokens to keep for the longest prompt of an answer, whoever reads it.

        A peek gets its cap, but at most a quarter of the context: where that is too little, the second stage fails.
        """
        peeks, reserved = peeks_in(system), min(self.settings.max_peek_tokens + SLACK, context // 4)
        prompt = challenge_prompt(problem, "") if peeks else draft_prompt(problem)
        longest = max(len(self.render(history, prompt, sharing[0]).ids) for sharing in self.sharing)
        return longest + reserved * peeks

    def clip(self, text: str) -> str:
        """What fits by every tokenizer that may read it."""
        cap = self.settings.max_peek_tokens
        return min((self.renderer(sharing[0]).clip(text, cap) for sharing in self.sharing), key=len)
