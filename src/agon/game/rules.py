"""The rules of one run: the arm's fields turned into the functions that play them.

`algorithm.play` reads a `Game` and nothing else, so that every arm, control and ablation goes through the same loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from agon.game import opponents, prompts, reward, roles
from agon.game.peek import peek
from agon.types import Completion, Policy, Problem, Prompt, Reward, Rollout, Sampling

Opponent = Literal["rival", "self", "none"]
Pairing = Literal["per_rollout", "shared", "next_draft"]
StackName = Literal["coop", "adv", "margin"]
Roles = Literal["rotate", "fixed"]
Rivalry = Literal["learns", "stays", "leaves"]
"""Policy B learns as A does; it is an adapter that stays as it is; or it is none of the run's own."""


@dataclass(frozen=True, slots=True)
class Game:
    """An arm (opponent to tiebreak_weight), its sizes, and how completions are drawn."""

    opponent: Opponent = "rival"
    show_draft: bool = True
    show_code: bool = False
    pairing: Pairing = "per_rollout"
    stack: StackName = "adv"
    roles: Roles = "rotate"
    tiebreak_weight: float = 0.0
    conversion_weight: float = 1.0
    group_size: int = 8
    format_weight: float = 0.5
    wait_for_all_drafts: bool = False
    max_peek_tokens: int = 2048
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    rival: Rivalry = "learns"

    def roles_at(self, step: int) -> tuple[Policy, Policy]:
        """(drafter, challenger) of a step."""
        if self.opponent != "rival":
            return roles.alone(step)
        return roles.rotate(step) if self.roles == "rotate" else roles.fixed(step)

    def learns(self, policy: Policy) -> bool:
        """Whether a policy learns from its stream: A always, B unless the rival stays what it is."""
        return policy is Policy.A or self.rival == "learns"

    @property
    def makes_pair(self) -> bool:
        """Whether A and B answer together after training: both are adapters, and B is the rival."""
        return self.opponent == "rival" and self.rival != "leaves"

    @property
    def two_stages(self) -> bool:
        return self.opponent != "none"

    @property
    def pays_bonus(self) -> bool:
        """Whether a challenge's reward depends on the rival's outcome."""
        return self.two_stages and (self.stack != "coop" or self.tiebreak_weight > 0)

    @property
    def drafts_per_problem(self) -> int:
        """N drafts that will be challenged, or all 2N rollouts plain: every arm draws 2N per problem (section 4.5)."""
        return self.group_size if self.two_stages else 2 * self.group_size

    def peek(self, problem: Problem, draft: Completion, clip: Callable[[str, int], str]) -> str | None:
        """What the challenger sees of a draft; None when drafts are hidden."""
        withhold_code = problem.is_code and not self.show_code
        look = partial(peek, clip=lambda text: clip(text, self.max_peek_tokens), withhold_code=withhold_code)
        return look(draft) if self.show_draft else None

    def challenge_prompt(self, problem: Problem, seen: str | None) -> Prompt:
        """The plain prompt when nothing is shown; else the attempt, as a rival's or as one's own."""
        if seen is None:
            return prompts.draft_prompt(problem)
        return (prompts.refine_prompt if self.opponent == "self" else prompts.challenge_prompt)(problem, seen)

    def rival_of(self, index: int) -> int:
        """Index of the draft that pays challenge `index`."""
        return opponents.PAIRINGS[self.pairing](index, self.group_size)

    def draft_reward(self, draft: Rollout) -> Reward | None:
        """R(a_i), or None when no verdict is known."""
        return reward.solo(draft.verdict, self.format_weight) if draft.verdict.graded else None

    def challenge_reward(self, challenge: Rollout, rival: Rollout) -> Reward | None:
        """R(b_i) by stack, or None when either verdict is unknown: without the rival's, the bonus is unknown too."""
        mine, theirs = challenge.verdict, rival.verdict
        if not (mine.graded and theirs.graded):
            return None
        lengths = challenge.completion.generated_tokens, rival.completion.generated_tokens
        paid = reward.STACKS[self.stack](mine, theirs, self.format_weight)
        return replace(
            paid,
            conversion=self.conversion_weight * paid.conversion,
            tiebreak=self.tiebreak_weight * reward.tiebreak(mine, theirs, *lengths),
        )
