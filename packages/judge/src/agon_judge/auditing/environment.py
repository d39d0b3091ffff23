"""What an audit asks of a framework: rows, and the score of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """A question, its gold (None where many answers are right and none is given), and what the framework needs."""

    question: str
    gold: str | None
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Score:
    """What a text is paid: None is no verdict. `error` says why there is none."""

    reward: float | None
    terms: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


class Environment(Protocol):
    """Rows of a split, and the score of a text. `version` names the package that scores.

    It may also have `full`, the reward of a right answer, else the most that a gold earns; and `score_many(rows,
    texts)` for rewards that see a batch; and `needs(row)`, which says what scoring takes besides a text.
    """

    version: str

    def rows(self, split: str) -> Sequence[Row]: ...

    def score(self, row: Row, text: str) -> Score: ...


@dataclass(frozen=True, slots=True)
class Target:
    """What is audited, as plain values: it is opened in another process.

    `rows` is a file of rows. `given` is a pickle of what has no name there: a function of a notebook's cell, a list of
    rows.
    """

    name: str
    rows: str | None = None
    take: int = 8
    seed: int = 0
    gold: str | None = None
    chat: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    given: str | None = None
