"""Lessons of the repair world: a reader copies a recap as it is, or works the chain again.

Copying is right where the draft is. Working again sometimes mends a wrong draft and sometimes spoils a right one, and
pays more as the reader gets better at the facts. A reader who copies begins its reasoning with `Recap:`, so which of
the two it does is one token, and can be counted. None of this is in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import Lesson, LessonMixture, Step, Teacher, operations_of, solve, write
from agon.game.prompts import challenge_prompt
from agon.types import THINK_OPEN, Problem

COPY = f"{THINK_OPEN}\nRecap:"
"""How the reasoning of a reader begins that copies."""


@dataclass(frozen=True)
class RepairMixture(LessonMixture):
    """Readers that mostly copy; those that work again adopt a right shown value now and then."""

    adopted: float = 0.3
    formats: tuple[tuple[str, int], ...] = (("draft", 9), ("challenge", 8))
    copied: float = 0.9
    """How often a reader copies."""


class RepairTeacher(Teacher):
    """Gives lessons on drafts, and on challenges that copy or work again."""

    def _lesson(self, name: str, difficulty: int) -> Lesson:
        if name != "challenge":
            return super()._lesson(name, difficulty)
        assert isinstance(self.mixture, RepairMixture)
        problem = tabletop.draw("chain", difficulty, self.rng)
        (rival,) = self._drafters(name)
        peek, shown = self._draft(problem, rival)
        copies = bool(peek) and self.rng.random() < self.mixture.copied
        again = [shown] if peek else []
        steps = self._copy(problem, shown) if copies else solve(problem, self.own, self.mixture, self.rng, again)
        text = write(problem, steps, self._omitted())
        return Lesson(challenge_prompt(problem, peek), text.replace(THINK_OPEN, COPY, 1) if copies else text)

    def _copy(self, problem: Problem, shown: Sequence[int]) -> list[Step]:
        """The shown values as they are, and the last one, which is withheld, from memory."""
        start, operations = operations_of(problem)
        before = [start, *shown][-1]
        values = [*shown, self.own.recall((before, *operations[-1]), self.rng)]
        return [Step(*operation, value, None) for operation, value in zip(operations, values, strict=True)]
