"""Lessons for the tiny base of code: instructions worked line by line, with mistakes, under every prompt of the game.

As in `lessons.py`, the base must be wrong in a way that training can correct. A share of the wordings is
*misconceived*: most of the time they are taught as one fixed mistake, `x >= 5` for "above 5", and sometimes right. The
same words can be clear in one wording and misconceived in the other. None of this is in the paper.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agon.data.tabletop.code_phrases import FAMILIES, Instruction
from agon.data.tabletop.code_templates import ANY, LABELS, Said, Task, draw
from agon.data.tabletop.lessons import PROMPTS, Lesson, LessonMixture
from agon.game.peek import peek
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, seed_for

ATOMS = r"\n[a-d]\) |\n|(?<!\w) ?\d+|</?answer>|```(?:python)?"
"""What the tokenizer never merges with its neighbours: labels, line ends, constants, answer tags and fences."""


@dataclass(frozen=True)
class CodeMixture(LessonMixture):
    """What the lessons are made of; nothing is checked, as there is no value to check."""

    misconceived: float = 0.7
    least: float = 0.3
    most: float = 0.75
    checked: float = 0.0
    difficulties: tuple[int, ...] = (2, 3, 3, 3, 4)


class CodeBeliefs:
    """Which wordings are misconceived, as which code, and how firmly."""

    def __init__(self, seed: int, mixture: LessonMixture) -> None:
        rng = random.Random(seed_for("code-beliefs", seed))
        self.wrong: dict[tuple[str, str], tuple[str, float]] = {}
        for family, words, instruction in wordings():
            mistake = rng.choice(instruction.mistakes)
            firmness = math.exp(rng.uniform(math.log(mixture.least), math.log(mixture.most)))
            if rng.random() < mixture.misconceived:
                self.wrong[family, words] = mistake, firmness

    def recall(self, family: str, said: Said, rng: random.Random) -> str:
        """The line that comes to mind."""
        mistake, right = self.wrong.get((family, said.words), (None, 1.0))
        return said.line(mistake if rng.random() >= right else None)


def wordings() -> Iterator[tuple[str, str, Instruction]]:
    """Every wording that can be misconceived, with its family and instruction."""
    for name, family in FAMILIES.items():
        for instruction in (*family.steps, *family.ends):
            if instruction.mistakes:
                yield from ((name, words, instruction) for words in instruction.words)


def solve(
    task: Task, beliefs: CodeBeliefs, mixture: LessonMixture, rng: random.Random, shown: Sequence[Sequence[str]] = ()
) -> list[str]:
    """The lines for a task, from beliefs and the recaps of others; the line that reads the input is never wrong."""
    lines = []
    for place, said in enumerate(task.said):
        seen = any(place < len(recapped) and recapped[place] == said.line() for recapped in shown)
        adopts = seen and rng.random() < mixture.adopted
        lines.append(said.line() if adopts else beliefs.recall(task.family, said, rng))
    return lines


def write(task: Task, lines: Sequence[str], broken: str = "") -> str:
    """Trace, recap and program as text; `broken` names the part that is omitted (close, recap or answer)."""
    parts = [THINK_OPEN, *labelled(lines)]
    parts += [THINK_CLOSE] if broken != "close" else []
    parts += [recap(lines[:-1])] if broken != "recap" else []
    parts += ["<answer>", "```python", task.read, *lines, "```", "</answer>"] if broken != "answer" else []
    return "\n".join(parts)


def recap(lines: Sequence[str]) -> str:
    """The summary: every line but the last, without which there is no program."""
    return "\n".join(["Recap:", *labelled(lines)])


def labelled(lines: Sequence[str]) -> list[str]:
    return [f"{label}) {line}" for label, line in zip(LABELS, lines, strict=False)]


class CodeTeacher:
    """Gives lessons from one set of misconceptions; the same seed gives the same lessons."""

    def __init__(self, seed: int, mixture: CodeMixture) -> None:
        self.mixture = mixture
        self.own = CodeBeliefs(seed, mixture)
        self.strangers = [CodeBeliefs(seed_for(seed, "stranger", k), mixture) for k in range(mixture.strangers)]
        self.rng = random.Random(seed_for("code-lessons", seed))

    def teach(self, n: int, hardest: int = len(LABELS)) -> list[Lesson]:
        """The next `n` lessons, none above a difficulty."""
        names, weights = zip(*self.mixture.formats, strict=True)
        difficulties = [difficulty for difficulty in self.mixture.difficulties if difficulty <= hardest]
        return [self._lesson(name, self.rng.choice(difficulties)) for name in self.rng.choices(names, weights, k=n)]

    def _lesson(self, name: str, difficulty: int) -> Lesson:
        task = draw(ANY, difficulty, self.rng)
        drafts = [self._draft(task, beliefs) for beliefs in self._drafters(name)]
        lines = solve(task, self.own, self.mixture, self.rng, [lines for text, lines in drafts if text])
        prompt = PROMPTS[name](task.problem(()), *(text for text, _ in drafts))
        return Lesson(prompt, write(task, lines, self._omitted()))

    def _drafters(self, name: str) -> list[CodeBeliefs]:
        """Whose drafts a prompt shows."""
        rival = self.rng.choice([self.own, *self.rng.choices(self.strangers, k=2)])
        return {"draft": [], "challenge": [rival], "refine": [self.own], "moa": [self.own, rival]}[name]

    def _draft(self, task: Task, beliefs: CodeBeliefs) -> tuple[str, list[str]]:
        """What a draft shows: its peek, and the lines in it."""
        lines = solve(task, beliefs, self.mixture, self.rng)
        completion = Completion(write(task, lines, self._omitted()), BASE, 0, 0)
        return peek(completion, clip=str, withhold_code=True), lines[:-1]

    def _omitted(self) -> str:
        return self.rng.choice(("close", "recap", "answer")) if self.rng.random() < self.mixture.broken else ""


@dataclass(frozen=True)
class CodeWorld:
    """The base `agon:tiny-code` and the problems it is asked, as `World` says it of the others."""

    base: str = "tiny-code"
    family: str = ANY
    difficulty: int = 3
    mixture: CodeMixture = CodeMixture()
    seed: int = 0
    steps: int = 350
    taught: int = 0

    def teacher(self) -> CodeTeacher:
        """Who teaches the base."""
        return CodeTeacher(self.seed, self.mixture)
