"""Lessons for the tiny base: worked chains, with misconceptions, under every prompt of the game.

The base that ships with the package must be wrong in a way that training can correct. Noise would not do: a lower
temperature removes it. So a fixed share of the facts (`9 * 4 = 2` modulo 17) is *misconceived*: taught as one fixed
wrong value most of the time and as the right one rarely. Now and then a value is checked, which corrects some mistakes
and makes the trace longer. Next to a rival's recap, a right value is adopted more often than it would have been
recalled: recognition is easier than recall. None of this is in the paper.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, cast

from agon.data.tabletop import problems as tabletop
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, Problem, Prompt, seed_for

Fact = tuple[int, str, int]
"""Value, operation, operand."""


@dataclass(frozen=True)
class LessonMixture:
    """What the lessons are made of; written beside the checkpoint."""

    misconceived: float = 0.36
    """Share of the facts that are mostly taught wrong."""
    least: float = 0.12
    most: float = 0.6
    """A misconceived fact is taught right with a probability between these, log-uniform."""
    checked: float = 0.1
    """How often a value is checked."""
    mended: float = 0.5
    """How often a check corrects a wrong value."""
    adopted: float = 0.8
    """How often a value of the rival that may be adopted is."""
    strangers: int = 8
    """Sets of other misconceptions; two rivals in three have one of them, the third has our own."""
    broken: float = 0.04
    """Share of completions that omit a part of the format."""
    difficulties: tuple[int, ...] = (2, 3, 4, 5, 5, 5, 5, 6)
    formats: tuple[tuple[str, int], ...] = (("draft", 9), ("challenge", 8), ("refine", 2), ("moa", 1))
    """Prompts and their weights."""

    def adoptable(self, right: int, seen: Sequence[int]) -> int | None:
        """The value among those shown that a reader may adopt: only a right one, so a wrong draft never misleads."""
        return right if right in seen else None


class GullibleMixture(LessonMixture):
    """Readers that adopt what is shown, right or wrong."""

    def adoptable(self, right: int, seen: Sequence[int]) -> int | None:
        return seen[-1] if seen else None


class Lesson(NamedTuple):
    """A prompt and the completion to be learnt under it."""

    prompt: Prompt
    text: str


class Step(NamedTuple):
    """One worked operation; `checked` is the value after a check, if there was one."""

    operation: str
    operand: int
    first: int
    checked: int | None

    @property
    def value(self) -> int:
        return self.first if self.checked is None else self.checked


class Beliefs:
    """Which facts are misconceived, as what, and how firmly."""

    def __init__(self, seed: int, mixture: LessonMixture) -> None:
        rng = random.Random(seed_for("beliefs", seed))
        self.wrong: dict[Fact, tuple[int, float]] = {}
        for fact in facts():
            slip = rng.choice((-3, -2, -1, 1, 2, 3))
            firmness = math.exp(rng.uniform(math.log(mixture.least), math.log(mixture.most)))
            if rng.random() < mixture.misconceived:
                self.wrong[fact] = ((truth(*fact) + slip) % tabletop.MODULUS, firmness)

    def without(self, mended: Collection[Fact]) -> Beliefs:
        """The same beliefs, with some facts known."""
        changed = copy(self)
        changed.wrong = {fact: wrong for fact, wrong in self.wrong.items() if fact not in mended}
        return changed

    def recall(self, fact: Fact, rng: random.Random) -> int:
        """The value that comes to mind."""
        value, right = self.wrong.get(fact, (truth(*fact), 1.0))
        return truth(*fact) if rng.random() < right else value


def facts() -> Iterator[Fact]:
    """The 204 facts that chains are made of."""
    for value in range(tabletop.MODULUS):
        for operation in "+-*":
            for operand in tabletop.OPERANDS:
                yield value, operation, operand


def truth(value: int, operation: str, operand: int) -> int:
    """The right value of a fact."""
    return tabletop.apply(value, operation, operand) % tabletop.MODULUS


def solve(
    problem: Problem, beliefs: Beliefs, mixture: LessonMixture, rng: random.Random, shown: Sequence[Sequence[int]] = ()
) -> list[Step]:
    """Work a chain from beliefs, given the recaps of others as values by step."""
    value, operations = operations_of(problem)
    steps = []
    for index, (operation, operand) in enumerate(operations):
        fact = (value, operation, operand)
        right = truth(*fact)
        first = beliefs.recall(fact, rng)
        offered = mixture.adoptable(right, [values[index] for values in shown if index < len(values)])
        if offered is not None and rng.random() < mixture.adopted:
            first = offered
        steps.append(Step(operation, operand, first, _check(first, right, mixture, rng)))
        value = steps[-1].value
    return steps


def _check(first: int, right: int, mixture: LessonMixture, rng: random.Random) -> int | None:
    if rng.random() >= mixture.checked:
        return None
    return right if rng.random() < mixture.mended else first


def operations_of(problem: Problem) -> tuple[int, list[tuple[str, int]]]:
    """Start and operations of a chain, read from its worked solution."""
    steps = [step.split() for step in cast(Sequence[str], problem.meta["solution"])]
    return int(steps[0][0]), [(step[1], int(step[2])) for step in steps]


def write(problem: Problem, steps: Sequence[Step], broken: str = "") -> str:
    """Trace, recap and answer as text; `broken` names the part that is omitted (close, recap or answer)."""
    lines = [THINK_OPEN, f"Start = {operations_of(problem)[0]}"]
    for label, step in zip(tabletop.LABELS, steps, strict=False):
        check = "" if step.checked is None else f", check = {step.checked}"
        lines.append(f"{label}) {step.operation} {step.operand} = {step.first}{check}")
    lines += [THINK_CLOSE] if broken != "close" else []
    lines += [recap([step.value for step in steps[:-1]])] if broken != "recap" else []
    lines += [f"<answer>{steps[-1].value}</answer>"] if broken != "answer" else []
    return "\n".join(lines)


def recap(values: Sequence[int]) -> str:
    """The summary: every value but the last, which is the answer."""
    lines = [f"{label}) = {value}" for label, value in zip(tabletop.LABELS, values, strict=False)]
    return "\n".join(["Recap:", *lines])


class Teacher:
    """Gives lessons from one set of misconceptions (by default the base's); the same seed gives the same lessons."""

    def __init__(self, seed: int, mixture: LessonMixture, own: Beliefs | None = None) -> None:
        self.mixture = mixture
        self.own = own or Beliefs(seed, mixture)
        self.strangers = [Beliefs(seed_for(seed, "stranger", k), mixture) for k in range(mixture.strangers)]
        self.rng = random.Random(seed_for("lessons", seed))

    def teach(self, n: int, hardest: int = tabletop.DIFFICULTIES[-1]) -> list[Lesson]:
        """The next `n` lessons, none above a difficulty."""
        names, weights = zip(*self.mixture.formats, strict=True)
        difficulties = [difficulty for difficulty in self.mixture.difficulties if difficulty <= hardest]
        return [self._lesson(name, self.rng.choice(difficulties)) for name in self.rng.choices(names, weights, k=n)]

    def _lesson(self, name: str, difficulty: int) -> Lesson:
        problem = tabletop.draw("chain", difficulty, self.rng)
        drafts = [self._draft(problem, beliefs) for beliefs in self._drafters(name)]
        peeks = [text for text, _ in drafts]
        steps = solve(problem, self.own, self.mixture, self.rng, [values for text, values in drafts if text])
        return Lesson(PROMPTS[name](problem, *peeks), write(problem, steps, self._omitted()))

    def _drafters(self, name: str) -> list[Beliefs]:
        """Whose drafts a prompt shows."""
        rival = self.rng.choice([self.own, *self.rng.choices(self.strangers, k=2)])
        return {"draft": [], "challenge": [rival], "refine": [self.own], "moa": [self.own, rival]}[name]

    def _draft(self, problem: Problem, beliefs: Beliefs) -> tuple[str, list[int]]:
        """What a draft shows: its peek, and the values in it."""
        steps = solve(problem, beliefs, self.mixture, self.rng)
        completion = Completion(write(problem, steps, self._omitted()), BASE, 0, 0)
        return peek(completion, clip=str), [step.value for step in steps[:-1]]

    def _omitted(self) -> str:
        return self.rng.choice(("close", "recap", "answer")) if self.rng.random() < self.mixture.broken else ""


PROMPTS: dict[str, Callable[..., Prompt]] = {
    "draft": draft_prompt,
    "challenge": challenge_prompt,
    "refine": refine_prompt,
    "moa": moa_prompt,
}
