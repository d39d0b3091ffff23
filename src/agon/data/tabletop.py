"""Tabletop: multi-step arithmetic with worked solutions, made from a seed, with nothing to download.

    chain     operations on a ring of 17 numbers, worked from top to bottom          one value per step, all below 17
    basket    a short story about fruit that comes and goes                           counts from 0 to 99
    mixed     an expression with brackets and precedence                              whole numbers, also negative

Difficulty is the number of operations, 1 to 9. The gold answer is a plain integer,
and `meta["solution"]` lists the steps as `"9 * 4 = 2"`. The paper has no such data; it lets a pair be trained and
watched on a laptop.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from agon.errors import DataError
from agon.types import Problem, content_id, seed_for

MODULUS = 17
"""The ring of the chain family."""

OPERANDS = (2, 3, 4, 5)
"""Small operands keep a result near its input, which a tiny model can learn; uniform ones leave it at chance."""

LABELS = "abcdefghi"
DIFFICULTIES = range(1, len(LABELS) + 1)
LARGEST_COUNT = 99
LARGEST_VALUE = 999
PEOPLE = ("Ana", "Ben", "Cleo", "Dimitri", "Eva", "Femi")
FRUIT = ("apples", "figs", "lemons", "olives", "pears", "plums")


class WorkedProblem(NamedTuple):
    """A question, its worked steps and its answer."""

    question: str
    solution: list[str]
    answer: int


def problems(family: str, difficulty: int, n: int, seed: int) -> list[Problem]:
    """The first `n` distinct problems of a family and difficulty; a longer list starts with the shorter one."""
    rng = random.Random(seed_for("tabletop", family, difficulty, seed))
    distinct: dict[str, Problem] = {}
    for _ in range(100 * n + 1_000):
        if len(distinct) == n:
            return list(distinct.values())
        problem = draw(family, difficulty, rng)
        distinct.setdefault(problem.id, problem)
    raise DataError(
        f"tabletop {family} at difficulty {difficulty} has only about {len(distinct)} distinct problems, not {n}",
        fix="take fewer problems, or choose a higher difficulty",
    )


def draw(family: str, difficulty: int, rng: random.Random) -> Problem:
    """One problem from a stream of random numbers."""
    if family not in FAMILIES:
        raise DataError(f"tabletop has no family {family!r}", fix=f"use one of: {', '.join(FAMILIES)}")
    if difficulty not in DIFFICULTIES:
        raise DataError(
            f"tabletop has no difficulty {difficulty}",
            fix=f"use a whole number from {DIFFICULTIES[0]} to {DIFFICULTIES[-1]}: it is the number of operations",
        )
    question, solution, answer = FAMILIES[family](rng, difficulty)
    meta = {"family": family, "difficulty": difficulty, "solution": solution}
    return Problem(content_id(question, str(answer)), question, str(answer), meta)


def apply(value: int, operation: str, operand: int) -> int:
    """One step of arithmetic in the whole numbers."""
    if operation == "+":
        return value + operand
    if operation == "-":
        return value - operand
    if operation == "*":
        return value * operand
    quotient, remainder = divmod(value, operand)
    if operation != "/" or remainder:
        raise ValueError(f"{value} {operation} {operand} is not a step of whole numbers")
    return quotient


def chain(rng: random.Random, difficulty: int) -> WorkedProblem:
    """Left to right around a ring of 17."""
    start = value = rng.randrange(MODULUS)
    lines, solution = [], []
    for label in LABELS[:difficulty]:
        operation, operand = rng.choice("+-*"), rng.choice(OPERANDS)
        result = apply(value, operation, operand) % MODULUS
        lines.append(f"{label}) {operation} {operand}")
        solution.append(f"{value} {operation} {operand} = {result}")
        value = result
    question = f"Start with {start} and work modulo {MODULUS}:\n" + ",\n".join(lines) + ".\nWhat is the result?"
    return WorkedProblem(question, solution, value)


def basket(rng: random.Random, difficulty: int) -> WorkedProblem:
    """Somebody's fruit, event by event; the count never leaves 0 to 99."""
    person, fruit = rng.choice(PEOPLE), rng.choice(FRUIT)
    value = rng.randint(2, 20)
    sentences, solution = [f"{person} has {value} {fruit}."], []
    for _ in range(difficulty):
        sentence, operation, operand = _event(rng, value)
        result = apply(value, operation, operand)
        sentences.append(sentence)
        solution.append(f"{value} {operation} {operand} = {result}")
        value = result
    sentences.append(f"How many {fruit} does {person} have now?")
    return WorkedProblem(" ".join(sentences), solution, value)


def _event(rng: random.Random, value: int) -> tuple[str, str, int]:
    """One thing that can happen to a basket of `value`."""
    k = rng.randint(2, 12)
    possible = []
    if value + k <= LARGEST_COUNT:
        possible += [(f"{k} more are bought.", "+", k), (f"A friend brings {k}.", "+", k)]
    if value >= k:
        possible += [(f"{k} are eaten.", "-", k), (f"{k} are given away.", "-", k)]
    for word, share, factor in (("doubles", "Half", 2), ("triples", "A third", 3)):
        if 0 < value * factor <= LARGEST_COUNT:
            possible.append((f"A good harvest {word} them.", "*", factor))
        if value and value % factor == 0:
            possible.append((f"{share} of them are left after the market.", "/", factor))
    return rng.choice(possible)


def mixed(rng: random.Random, difficulty: int) -> WorkedProblem:
    """A random expression, reduced one operation at a time; no value on the way exceeds 999."""
    while True:
        solution: list[str] = []
        text, value = _expression(rng, difficulty, solution)
        if all(abs(int(number)) <= LARGEST_VALUE for step in solution for number in step.split()[::2]):
            return WorkedProblem(f"What is {text}?", solution, value)


def _expression(rng: random.Random, operations: int, solution: list[str]) -> tuple[str, int]:
    if operations == 0:
        value = rng.randint(1, 9)
        return str(value), value
    left_operations = rng.randrange(operations)
    operation = rng.choice("+-*")
    left_text, left = _expression(rng, left_operations, solution)
    right_text, right = _expression(rng, operations - 1 - left_operations, solution)
    value = apply(left, operation, right)
    solution.append(f"{left} {operation} {right} = {value}")
    return f"{_bracket(left_text, operation, False)} {operation} {_bracket(right_text, operation, True)}", value


def _bracket(text: str, operation: str, right: bool) -> str:
    """Add brackets exactly where the usual rules of precedence would otherwise read a different tree."""
    top = _top_operations(text)
    sums = bool(top & {"+", "-"})
    needed = (sums or (right and bool(top))) if operation == "*" else (right and sums)
    return f"({text})" if needed else text


def _top_operations(text: str) -> set[str]:
    """The operations of an expression outside every bracket."""
    depth, operations = 0, set()
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign in "+-*":
            operations.add(sign)
    return operations


FAMILIES: dict[str, Callable[[random.Random, int], WorkedProblem]] = {
    "chain": chain,
    "basket": basket,
    "mixed": mixed,
}
