"""Lessons of the relay world: a pass has room for about five steps, and its recap is the last value that it reached.

A pass that runs out of room closes its reasoning, recaps how far it came (`e) = 9`) and guesses. Who reads that may
continue from there; in most lessons a reader starts over, so that reading is a skill to be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import PROMPTS, Beliefs, Fact, Lesson, LessonMixture, Teacher, operations_of, truth
from agon.game.peek import peek
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, Problem


@dataclass(frozen=True)
class RelayMixture(LessonMixture):
    """A mixture with passes of limited room and readers that sometimes continue."""

    misconceived: float = 0.2
    checked: float = 0.0
    rooms: tuple[tuple[int, int], ...] = ((3, 2), (4, 3), (5, 3), (8, 2))
    """Steps that a pass works before it stops, with weights; the completion limit truncates those above five."""
    continued: float = 0.15
    """How often a reader continues from a recap instead of starting over."""
    difficulties: tuple[int, ...] = (2, 4, 6, 8, 8, 8, 8, 8)
    formats: tuple[tuple[str, int], ...] = (("draft", 9), ("challenge", 8), ("refine", 3), ("moa", 1))


class Reached(NamedTuple):
    """What a recap says: steps done, and the value after them."""

    steps: int
    value: int

    @property
    def line(self) -> str:
        return f"{tabletop.LABELS[self.steps - 1]}) = {self.value}"


class RelayTeacher(Teacher):
    """Gives lessons on chains that are longer than a pass."""

    def __init__(self, seed: int, mixture: RelayMixture) -> None:
        super().__init__(seed, mixture)
        self.relay = mixture

    def _lesson(self, name: str, difficulty: int) -> Lesson:
        problem = tabletop.draw("relay", difficulty, self.rng)
        drafts = [self._pass(problem, beliefs, ()) for beliefs in self._drafters(name)]
        peeks = [peek(Completion(text, BASE, 0, 0), clip=str) for text, _ in drafts]
        shown = [reached for seen, (_, reached) in zip(peeks, drafts, strict=True) if seen]
        return Lesson(PROMPTS[name](problem, *peeks), self._pass(problem, self.own, shown)[0])

    def _pass(self, problem: Problem, beliefs: Beliefs, shown: Sequence[Reached]) -> tuple[str, Reached]:
        """One pass after the recaps of others: its text, and how far it came."""
        start, operations = operations_of(problem)
        begin, lines = Reached(0, start), [THINK_OPEN, f"Start = {start}"]
        if shown and self.rng.random() < self.relay.continued:
            begin = max(shown)
            lines[1] = begin.line
        room = self.rng.choices(*zip(*self.relay.rooms, strict=True))[0]
        value, last = begin.value, begin
        for index in range(begin.steps, min(len(operations), begin.steps + room)):
            value = self._recall((value, *operations[index]), beliefs, index + 1, shown)
            lines.append(f"{tabletop.LABELS[index]}) {' '.join(map(str, operations[index]))} = {value}")
            if index + 1 < len(operations):  # the last value of the chain is the answer, and no recap holds it
                last = Reached(index + 1, value)
        return "\n".join([*lines, *self._end(last, value)]), last

    def _recall(self, fact: Fact, beliefs: Beliefs, steps: int, shown: Sequence[Reached]) -> int:
        right = truth(*fact)
        adopts = Reached(steps, right) in shown and self.rng.random() < self.relay.adopted
        return right if adopts else beliefs.recall(fact, self.rng)

    def _end(self, reached: Reached, value: int) -> list[str]:
        """Close, recap and answer, but for a part that is omitted now and then."""
        parts = {
            "close": [THINK_CLOSE],
            "recap": ["Recap:", reached.line],
            "answer": [f"<answer>{value}</answer>"],
        }
        omitted = self._omitted()
        return [line for name, lines in parts.items() if name != omitted for line in lines]
