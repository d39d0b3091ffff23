"""Rollouts of random tokens: what a step costs, and whether it fits. The rehearsal of a run learns from them."""

from __future__ import annotations

import random
from collections.abc import Iterable

from agon.protocols import Tokens
from agon.types import Completion, Policy, Problem, Prompt, Reason, Rollout, Stream, StreamName, Verdict, Version

PROBLEM = Problem(id="synthetic", question="", answer="")
VERDICT = Verdict(correct=False, well_formed=False, reason=Reason.WRONG)


def rollout(policy: Policy, index: int, tokens: Tokens, advantage: float | None) -> Rollout:
    """A rollout that a learner treats like any other."""
    sizes = len(tokens.prompt_ids), len(tokens.completion_ids)
    completion = Completion("", Version.of(policy, 0, "synthetic"), *sizes, tokens=tokens)
    return Rollout(PROBLEM, index, policy, Prompt(()), completion, VERDICT, advantage=advantage)


def random_tokens(rng: random.Random, vocabulary: int, prompt: int, completion: int) -> Tokens:
    """Random ids of the given lengths, without log-probabilities."""
    ids = [rng.randrange(1, vocabulary) for _ in range(prompt + completion)]
    return Tokens(tuple(ids[:prompt]), tuple(ids[prompt:]))


def stream(policy: Policy, groups: Iterable[Iterable[Rollout]], name: StreamName = "standalone") -> Stream:
    return Stream(name, policy, tuple(tuple(group) for group in groups))


def worst_case(policy: Policy, rows: int, vocabulary: int, prompt: int, completion: int, seed: int = 0) -> Stream:
    """`rows` live rollouts of the longest prompt and completion that a config allows."""
    rng = random.Random(seed)
    signs = [1.0 if i % 2 else -1.0 for i in range(rows)]
    drawn = [random_tokens(rng, vocabulary, prompt, completion) for _ in signs]
    return stream(policy, [[rollout(policy, i, drawn[i], sign) for i, sign in enumerate(signs)]])
