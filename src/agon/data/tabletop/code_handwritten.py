"""The handwritten problems of `tabletop-code`: each with tests, a reference program, and three that are wrong.

They are in `handwritten/*.yaml`, by topic. A question shows its public tests; a wrong program is one that a beginner
might write, and fails at least one test. `evidence/reward_hacks.py` runs all of them in the sandbox.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agon.types import Problem, UnitTests, content_id, seed_for

FOLDER = Path(__file__).parent / "handwritten"


@dataclass(frozen=True, slots=True)
class Handwritten:
    """A problem, whose gold is the reference, and the wrong programs by what is wrong with them."""

    problem: Problem
    wrong: Mapping[str, str]


def problems(n: int, seed: int) -> list[Problem]:
    """The first `n` of them in an order that the seed decides; all of them if there are fewer."""
    every = [entry.problem for entry in handwritten()]
    random.Random(seed_for("tabletop-code", "handwritten", seed)).shuffle(every)
    return every[:n]


@cache
def handwritten() -> tuple[Handwritten, ...]:
    """All of them, topic by topic."""
    import yaml

    rows = [(path.stem, row) for path in sorted(FOLDER.glob("*.yaml")) for row in yaml.safe_load(path.read_text())]
    return tuple(_handwritten(topic, **row) for topic, row in rows)


def _handwritten(
    topic: str,
    name: str,
    statement: str,
    public: list[list[str]],
    hidden: list[list[str]],
    reference: str,
    wrong: dict[str, str],
    tolerance: float | None = None,
) -> Handwritten:
    cases = tuple((f"{given}\n", expected) for given, expected in (*public, *hidden))
    tests = UnitTests(cases, len(public), tolerance=tolerance)
    question = "\n\n".join([statement, *(f"Input:\n{given}\nOutput:\n{expected}" for given, expected in public)])
    meta = {"family": "handwritten", "topic": topic, "name": name}
    return Handwritten(Problem(content_id(question, reference), question, reference, meta, tests), wrong)
