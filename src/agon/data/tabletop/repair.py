"""Lessons of the repair world: a reader copies a recap as it is, or works the chain again.

Copying is right where the draft is: the last step, which a recap withholds, is always one that the base knows. A reader
who works again is at first worse at it than a drafter, with mistakes of its own: it rarely mends a wrong draft, often
spoils a right one, and improves with practice. A reader who copies begins its reasoning with `Recap:`, so which of the
two it does is one token, and can be counted. None of this is in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import (
    Beliefs,
    GullibleMixture,
    Lesson,
    LessonMixture,
    Step,
    Teacher,
    operations_of,
    solve,
    truth,
    write,
)
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.types import THINK_OPEN, Problem, seed_for

NEUTRAL = Beliefs(0, LessonMixture())
"""What the tiny base believes."""
COPY = f"{THINK_OPEN}\nRecap:"
"""How the reasoning of a reader begins that copies."""


SURE = "sure"
"""The family of chains whose last step the tiny base knows."""


def sure_problems(difficulty: int, n: int, seed: int) -> list[Problem]:
    """The first `n` distinct chains whose last step the tiny base knows; a longer list starts with the shorter one."""
    rng = random.Random(seed_for("tabletop", SURE, difficulty, seed))
    return tabletop.distinct_problems(partial(sure_problem, difficulty, rng), SURE, difficulty, n)


def sure_problem(difficulty: int, rng: random.Random) -> Problem:
    """A chain whose last step the tiny base knows."""
    while True:
        problem = tabletop.draw("chain", difficulty, rng)
        value, operations = operations_of(problem)
        for operation in operations[:-1]:
            value = truth(value, *operation)
        if (value, *operations[-1]) not in NEUTRAL.wrong:
            return problem


@dataclass(frozen=True)
class RepairMixture(GullibleMixture):
    """Readers that mostly copy; those that work again adopt a shown value now and then, right or wrong."""

    adopted: float = 0.2
    difficulties: tuple[int, ...] = (3, 4, 4, 4)
    formats: tuple[tuple[str, int], ...] = (("draft", 1), ("challenge", 6))
    copied: float = 0.9
    """How often a reader copies."""


MORE = LessonMixture(misconceived=0.3, least=0.05, most=0.3)
"""What a reader gets wrong beyond its own mistakes when it works again."""


class RepairTeacher(Teacher):
    """Gives lessons on drafts, and on challenges that copy or work again."""

    def __init__(self, seed: int, mixture: RepairMixture, own: Beliefs) -> None:
        super().__init__(seed, mixture, own)
        self.again = own.without(())
        self.again.wrong = Beliefs(seed_for("again"), MORE).wrong | own.wrong

    def _lesson(self, name: str, difficulty: int) -> Lesson:
        assert isinstance(self.mixture, RepairMixture)
        problem = sure_problem(difficulty, self.rng)
        if name == "draft":
            return Lesson(draft_prompt(problem), write(problem, solve(problem, self.own, self.mixture, self.rng)))
        (rival,) = self._drafters(name)
        peek, shown = self._draft(problem, rival)
        copies = bool(peek) and self.rng.random() < self.mixture.copied
        again = [shown] if peek else []
        steps = self._copy(problem, shown) if copies else solve(problem, self.again, self.mixture, self.rng, again)
        text = write(problem, steps, self._omitted())
        return Lesson(challenge_prompt(problem, peek), text.replace(THINK_OPEN, COPY, 1) if copies else text)

    def _copy(self, problem: Problem, shown: Sequence[int]) -> list[Step]:
        """The shown values as they are, and the last one, which is withheld, from memory."""
        start, operations = operations_of(problem)
        before = [start, *shown][-1]
        values = [*shown, self.own.recall((before, *operations[-1]), self.rng)]
        return [Step(*operation, value, None) for operation, value in zip(operations, values, strict=True)]
