"""The templated problems of `tabletop-code`: instructions from top to bottom, solved by a program of two to five lines.

    numbers    read an integer, change it, print something about it
    lists      the same with a line of integers
    texts      the same with a line of text
    any        a problem of one of the three

Difficulty is the number of instructions, 1 to 4; the last one prints. The gold is a program, and the expected outputs
are what it prints. The tests are chosen so that they tell likely mistakes from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

from agon.data.tabletop.code_phrases import FAMILIES, Instruction
from agon.errors import DataError
from agon.types import Problem, UnitTests, content_id, seed_for

ANY = "any"
LABELS = "abcd"
CONSTANTS = range(2, 10)
INPUTS = 40
"""Inputs among which the tests are chosen."""
FEWEST_TESTS = 4
WORDS = (
    "a",
    "an",
    "ape",
    "bee",
    "cat",
    "eel",
    "hen",
    "deer",
    "goat",
    "seal",
    "tree",
    "eagle",
    "koala",
    "otter",
    "banana",
)


class Said(NamedTuple):
    """An instruction in one of its wordings; what somebody believes about it is a fact of its own."""

    words: str
    instruction: Instruction
    constant: int
    prints: bool

    @property
    def text(self) -> str:
        return self.words.replace("{c}", str(self.constant))

    def line(self, expression: str | None = None) -> str:
        """The line of a program that does it, by the right expression or by one that somebody believes in."""
        code = (self.instruction.code if expression is None else expression).replace("{c}", str(self.constant))
        return f"print({code})" if self.prints else f"v = {code}"


@dataclass(frozen=True, slots=True)
class Task:
    """A family and what is asked of its value."""

    family: str
    said: tuple[Said, ...]

    @property
    def read(self) -> str:
        return f"v = {FAMILIES[self.family].read}"

    @property
    def question(self) -> str:
        lines = [f"{label}) {said.text}." for label, said in zip(LABELS, self.said, strict=False)]
        return "\n".join([FAMILIES[self.family].words, *lines])

    @property
    def solution(self) -> list[str]:
        return [self.read, *(said.line() for said in self.said)]

    def problem(self, cases: Sequence[tuple[str, str]]) -> Problem:
        """The problem that asks for this; no test is shown."""
        meta = {"family": self.family, "difficulty": len(self.said)}
        answer = "\n".join(self.solution)
        return Problem(content_id(self.question, answer), self.question, answer, meta, UnitTests(tuple(cases)))


def problems(family: str, difficulty: int, n: int, seed: int) -> list[Problem]:
    """The first `n` distinct problems of a family and difficulty; a longer list starts with the shorter one."""
    rng = random.Random(seed_for("tabletop-code", family, difficulty, seed))
    distinct: dict[str, Problem] = {}
    for _ in range(100 * n + 1_000):
        if len(distinct) == n:
            return list(distinct.values())
        task = draw(family, difficulty, rng)
        cases = cases_for(task) if task.question not in distinct else []
        if len({output for _, output in cases}) > 1:  # otherwise a constant would do
            distinct[task.question] = task.problem(cases)
    raise DataError(
        f"tabletop-code {family} at difficulty {difficulty} has only about {len(distinct)} distinct problems, not {n}",
        fix="take fewer problems, or choose a higher difficulty",
    )


def draw(family: str, difficulty: int, rng: random.Random) -> Task:
    """One task from a stream of random numbers."""
    if family not in (ANY, *FAMILIES):
        raise DataError(
            f"tabletop-code has no family {family!r}", fix=f"use one of: {', '.join([ANY, *FAMILIES])}, handwritten"
        )
    if not 1 <= difficulty <= len(LABELS):
        raise DataError(
            f"tabletop-code has no difficulty {difficulty}",
            fix=f"use a whole number from 1 to {len(LABELS)}: it is the number of instructions",
        )
    name = rng.choice(list(FAMILIES)) if family == ANY else family
    steps = rng.sample(FAMILIES[name].steps, difficulty - 1)
    return Task(name, tuple(_say(step, rng) for step in (*steps, rng.choice(FAMILIES[name].ends))))


def _say(instruction: Instruction, rng: random.Random) -> Said:
    prints = any(instruction in family.ends for family in FAMILIES.values())
    words, constant = rng.choice(instruction.words), rng.choice(CONSTANTS)
    return Said(words, instruction, constant if "{c}" in words else 0, prints)


def mistaken(task: Task) -> Iterator[list[str]]:
    """Every program with one likely mistake."""
    for place, said in enumerate(task.said, start=1):
        for mistake in said.instruction.mistakes:
            yield [*task.solution[:place], said.line(mistake), *task.solution[place + 1 :]]


def cases_for(task: Task) -> list[tuple[str, str]]:
    """Inputs with what the solution prints: for every likely mistake one that shows it, if any of the inputs does."""
    rng = random.Random(seed_for("tests", task.question))
    inputs = list(dict.fromkeys(_inputs(task.family, {said.constant for said in task.said}, rng)))
    right = outputs(task.solution, inputs)
    chosen = dict.fromkeys(range(FEWEST_TESTS))
    for lines in mistaken(task):
        wrong = outputs(lines, inputs)
        shows = [place for place in range(len(inputs)) if wrong[place] != right[place]]
        if shows and not chosen.keys() & set(shows):
            chosen[rng.choice(shows)] = None
    return [(f"{inputs[place]}\n", " ".join(right[place] or ())) for place in chosen]


def outputs(lines: Sequence[str], inputs: Sequence[str]) -> list[list[str] | None]:
    """What a program of ours prints for each input, in tokens; None where it fails. Nothing else is ever run here."""
    code = compile("\n".join(lines), "<solution>", "exec")
    return [_output(code, text) for text in inputs]


def _output(code: CodeType, text: str) -> list[str] | None:
    printed: list[str] = []

    def show(*values: object, sep: str = " ") -> None:
        printed.append(sep.join(map(str, values)))

    try:
        exec(code, {"input": lambda: text.removesuffix("\n"), "print": show})  # noqa: S102  # only code of ours
    except (ValueError, TypeError, IndexError):
        return None
    return " ".join(printed).split()


def _inputs(family: str, constants: set[int], rng: random.Random) -> Iterator[str]:
    """Inputs near the constants of a task, with the edge cases first."""
    near = [constant + shift for constant in sorted(constants) for shift in (0, 1, -1)]
    if family == "numbers":
        yield from map(str, [-rng.randint(11, 99), rng.randint(20, 99), 0, *near])
        yield from (str(rng.randint(-60, 120)) for _ in range(INPUTS))
    elif family == "lists":
        for size in (9, 8, 0, 1, *[rng.randint(2, 10) for _ in range(INPUTS)]):
            yield " ".join(str(rng.choice((*near, rng.randint(-9, 15)))) for _ in range(size))
        yield from (" ".join(str(-rng.randint(1, 9)) for _ in range(size)) for size in range(2, 6))
    else:
        for size in (5, 4, 1, *[rng.randint(1, 6) for _ in range(INPUTS)]):
            yield " ".join(rng.choices(WORDS, k=size))
