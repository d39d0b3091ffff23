"""Lessons for tiny models: worked chains, with misconceptions, under every prompt of the game.

A base must be wrong in a way that training can correct. Noise would not do: a lower temperature removes it. So a fixed
share of the facts (`9 * 4 = 2` modulo 17) is *misconceived*: taught as one fixed wrong value most of the time and as
the right one rarely. Now and then a value is checked, which corrects some mistakes. Next to a rival's recap, a right
value is adopted more often than it would have been recalled: recognition is easier than recall.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from agon.data import tabletop
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, Policy, Problem, Prompt, seed_for

Fact = tuple[int, str, int]
"""Value, operation, operand."""
PROMPTS: dict[str, Callable[..., Prompt]] = {
    "draft": draft_prompt,
    "challenge": challenge_prompt,
    "refine": refine_prompt,
    "moa": moa_prompt,
}


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


# -- beliefs ----------------------------------------------------------------------------------------------------------


class Beliefs:
    """Which facts are misconceived, as what, and how firmly."""

    def __init__(self, seed: int, mixture: LessonMixture) -> None:
        rng = random.Random(seed_for("beliefs", seed))
        self.wrong: dict[Fact, tuple[int, float]] = {}
        for value in range(tabletop.MODULUS):
            for operation in "+-*":
                for operand in tabletop.OPERANDS:
                    fact = (value, operation, operand)
                    slip = rng.choice((-3, -2, -1, 1, 2, 3))
                    right = math.exp(rng.uniform(math.log(mixture.least), math.log(mixture.most)))
                    if rng.random() < mixture.misconceived:
                        self.wrong[fact] = ((truth(*fact) + slip) % tabletop.MODULUS, right)

    def without(self, mended: Collection[Fact]) -> Beliefs:
        """The same beliefs, with some facts known."""
        changed = copy(self)
        changed.wrong = {fact: wrong for fact, wrong in self.wrong.items() if fact not in mended}
        return changed

    def recall(self, fact: Fact, rng: random.Random) -> int:
        """The value that comes to mind."""
        value, right = self.wrong.get(fact, (truth(*fact), 1.0))
        return truth(*fact) if rng.random() < right else value


def truth(value: int, operation: str, operand: int) -> int:
    """The right value of a fact."""
    return tabletop.apply(value, operation, operand) % tabletop.MODULUS


def known_to(base: Beliefs) -> dict[Fact, str]:
    """Who is taught each of the base's wrong facts: `a` two fifths, `b` two others, `nobody` the last fifth.

    Facts that are not wrong in the base both know. What nobody knows cannot be learnt from a rival: a control.
    """
    order = sorted(base.wrong)
    random.Random(seed_for("halves")).shuffle(order)
    share = 2 * len(order) // 5
    return {fact: "a" if k < share else "b" if k < 2 * share else "nobody" for k, fact in enumerate(order)}


# -- traces -----------------------------------------------------------------------------------------------------------


def operations_of(problem: Problem) -> tuple[int, list[tuple[str, int]]]:
    """Start and operations of a chain, read from its worked solution."""
    steps = [step.split() for step in problem.meta["solution"]]  # type: ignore[attr-defined]
    return int(steps[0][0]), [(step[1], int(step[2])) for step in steps]


def write(problem: Problem, steps: Sequence[Step], omitted: str = "") -> str:
    """Trace, recap and answer as text, but for a part that is omitted (close, recap or answer)."""
    lines = [THINK_OPEN, f"Start = {operations_of(problem)[0]}"]
    for label, step in zip(tabletop.LABELS, steps, strict=False):
        check = "" if step.checked is None else f", check = {step.checked}"
        lines.append(f"{label}) {step.operation} {step.operand} = {step.first}{check}")
    recap = [f"{label}) = {step.value}" for label, step in zip(tabletop.LABELS, steps[:-1], strict=False)]
    return "\n".join(lines + ending(recap, steps[-1].value, omitted))


def ending(recap: Sequence[str], answer: int, omitted: str) -> list[str]:
    """What follows the reasoning. A recap never holds the last value: that is the answer."""
    parts = {"close": [THINK_CLOSE], "recap": ["Recap:", *recap], "answer": [f"<answer>{answer}</answer>"]}
    return [line for name, lines in parts.items() if name != omitted for line in lines]


# -- teachers ---------------------------------------------------------------------------------------------------------


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
        return [self.lesson(name, self.rng.choice(difficulties)) for name in self.rng.choices(names, weights, k=n)]

    def lesson(self, name: str, difficulty: int) -> Lesson:
        problem = tabletop.draw("chain", difficulty, self.rng)
        drafts = [self.draft(problem, beliefs) for beliefs in self.drafters(name)]
        steps = self.solve(problem, self.own, [values for shown, values in drafts if shown])
        return Lesson(PROMPTS[name](problem, *(shown for shown, _ in drafts)), write(problem, steps, self.omitted()))

    def drafters(self, name: str) -> list[Beliefs]:
        """Whose drafts a prompt shows."""
        rival = self.rng.choice([self.own, *self.rng.choices(self.strangers, k=2)])
        return {"draft": [], "challenge": [rival], "refine": [self.own], "moa": [self.own, rival]}[name]

    def draft(self, problem: Problem, beliefs: Beliefs) -> tuple[str, list[int]]:
        """What a draft shows: its peek, and the values in it."""
        steps = self.solve(problem, beliefs)
        completion = Completion(write(problem, steps, self.omitted()), BASE, 0, 0)
        return peek(completion, clip=str), [step.value for step in steps[:-1]]

    def solve(self, problem: Problem, beliefs: Beliefs, shown: Sequence[Sequence[int]] = ()) -> list[Step]:
        """Work a chain from beliefs, given the recaps of others as values by step."""
        value, operations = operations_of(problem)
        steps: list[Step] = []
        for index, (operation, operand) in enumerate(operations):
            right = truth(value, operation, operand)
            first = beliefs.recall((value, operation, operand), self.rng)
            offered = self.mixture.adoptable(right, [values[index] for values in shown if index < len(values)])
            if offered is not None and self.rng.random() < self.mixture.adopted:
                first = offered
            checked = None
            if self.rng.random() < self.mixture.checked:
                checked = right if self.rng.random() < self.mixture.mended else first
            steps.append(Step(operation, operand, first, checked))
            value = steps[-1].value
        return steps

    def omitted(self) -> str:
        return self.rng.choice(("close", "recap", "answer")) if self.rng.random() < self.mixture.broken else ""


@dataclass(frozen=True)
class RelayMixture(LessonMixture):
    """Passes of limited room, and readers that sometimes continue."""

    misconceived: float = 0.2
    checked: float = 0.0
    rooms: tuple[tuple[int, int], ...] = ((3, 2), (4, 3), (5, 3), (8, 2))
    """Steps that a pass works before it stops, with weights; the completion limit truncates those above five."""
    continued: float = 0.15
    """How often a reader continues from a recap instead of starting over: reading is a skill to be trained."""
    difficulties: tuple[int, ...] = (2, 4, 6, 8, 8, 8, 8, 8)
    formats: tuple[tuple[str, int], ...] = (("draft", 9), ("challenge", 8), ("refine", 3), ("moa", 1))


Reached = tuple[int, int]
"""What a recap of the relay world says: steps done, and the value after them."""


class RelayTeacher(Teacher):
    """Gives lessons on chains that are longer than a pass: it stops, recaps the last value it reached, and guesses."""

    def __init__(self, seed: int, mixture: RelayMixture) -> None:
        super().__init__(seed, mixture)
        self.relay = mixture

    def lesson(self, name: str, difficulty: int) -> Lesson:
        problem = tabletop.draw("chain", self.rng.randint(min(3, difficulty), difficulty), self.rng)
        drafts = [self.one_pass(problem, beliefs, ()) for beliefs in self.drafters(name)]
        peeks = [peek(Completion(text, BASE, 0, 0), clip=str) for text, _ in drafts]
        shown = [reached for seen, (_, reached) in zip(peeks, drafts, strict=True) if seen]
        return Lesson(PROMPTS[name](problem, *peeks), self.one_pass(problem, self.own, shown)[0])

    def one_pass(self, problem: Problem, beliefs: Beliefs, shown: Sequence[Reached]) -> tuple[str, Reached]:
        """One pass after the recaps of others: its text, and how far it came."""
        start, operations = operations_of(problem)
        begin, first_line = (0, start), f"Start = {start}"
        if shown and self.rng.random() < self.relay.continued:
            begin = max(shown)
            first_line = said(begin)
        lines, room = [THINK_OPEN, first_line], self.rng.choices(*zip(*self.relay.rooms, strict=True))[0]
        value, last = begin[1], begin
        for index in range(begin[0], min(len(operations), begin[0] + room)):
            operation, operand = operations[index]
            right = truth(value, operation, operand)
            adopts = (index + 1, right) in shown and self.rng.random() < self.relay.adopted
            value = right if adopts else beliefs.recall((value, operation, operand), self.rng)
            lines.append(f"{tabletop.LABELS[index]}) {operation} {operand} = {value}")
            if index + 1 < len(operations):
                last = (index + 1, value)
        return "\n".join(lines + ending([said(last)], value, self.omitted())), last


def said(reached: Reached) -> str:
    return f"{tabletop.LABELS[reached[0] - 1]}) = {reached[1]}"


# -- worlds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What a base was taught."""

    mixture: LessonMixture
    folder: str
    """Of the base, where it ships."""
    family: str = "chain"
    difficulty: int = 5
    """Of the problems that its runs train on."""
    seed: int = 0
    """Weights, lessons and misconceptions."""
    steps: int = 700
    """Of pretraining."""
    taught: int = 0
    """Steps of the lessons that A and B have apart; 0 for none."""

    def teacher(self) -> Teacher:
        """Who teaches the base."""
        if isinstance(self.mixture, RelayMixture):
            return RelayTeacher(self.seed, self.mixture)
        return Teacher(self.seed, self.mixture)

    def teacher_of(self, policy: Policy) -> Teacher:
        """Who teaches a policy what the base does not know."""
        base = Beliefs(self.seed, self.mixture)
        own = base.without([fact for fact, who in known_to(base).items() if who == policy.value])
        return Teacher(self.seed, self.mixture, own)


FIRM = LessonMixture(misconceived=0.38, least=0.0001, most=0.0003, checked=0.0)
SOFT = LessonMixture(misconceived=0.8, least=0.3, most=0.6, checked=0.0)
WORLDS = {
    "neutral": World(LessonMixture(), "tiny"),
    "relay": World(RelayMixture(), "relay", "relay", 8, steps=900),
    "halves": World(FIRM, "halves", steps=500, taught=150),
    "soft-halves": World(SOFT, "soft-halves", steps=500, taught=150),
}
GULLIBLE_STEPS = 100
"""Of the lessons that the readers of `gullible` had over the base of neutral."""


def gullible_reader(policy: Policy) -> Teacher:
    """Who teaches a policy to copy what it reads; what it believes stays what the base of neutral believes."""
    neutral = WORLDS["neutral"]
    return Teacher(5 + list(Policy).index(policy), GullibleMixture(), Beliefs(neutral.seed, neutral.mixture))
