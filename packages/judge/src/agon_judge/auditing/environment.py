"""What an audit asks of a framework: rows, and the score of a text. One file per framework, imported when named.

    FILE.py:function, package.module:function    a reward in TRL's signature, with a file of rows        trl.py
    reasoning-gym:TASK                           a data set of reasoning-gym                             gym.py
    verifiers:MODULE                             a v1 taskset of verifiers                               tasksets.py
    math, math-verify, code                      our rewards, with a file of rows                        trl.py

A name in a file may also be an Environment itself, or a class whose instances are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agon_judge.errors import InputError

OURS = {"math": "math_reward", "math-verify": "math_verify_reward", "code": "code_reward"}
"""Our rewards, and where `agon_judge` has them."""


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
    """What is audited, as plain values: it is opened in another process. `rows` is a file of rows."""

    name: str
    rows: str | None = None
    take: int = 8
    seed: int = 0
    gold: str | None = None
    chat: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def open_environment(target: Target) -> Environment:
    """The environment that a target names; InputError where there is none."""
    kind, _, rest = target.name.partition(":")
    if target.name in OURS:
        from agon_judge.auditing.trl import RewardFunction

        return RewardFunction(target, f"agon_judge:{OURS[target.name]}")
    if kind == "reasoning-gym" and rest:
        from agon_judge.auditing.gym import GymDataset

        return GymDataset(target, rest)
    if kind == "verifiers" and rest:
        from agon_judge.auditing.tasksets import VerifiersTaskset

        return VerifiersTaskset(target, rest)
    if rest:
        from agon_judge.auditing.trl import RewardFunction, named

        thing = named(target.name)
        if isinstance(thing, type):
            thing = thing()
        if callable(getattr(thing, "rows", None)) and callable(getattr(thing, "score", None)):
            environment: Environment = thing
            return environment
        return RewardFunction(target, target.name)
    if target.name.endswith(".py"):
        raise InputError(f"{target.name} names no function", fix=f"add it: {target.name}:FUNCTION")
    raise InputError(
        f"{target.name} names nothing that can be audited",
        fix=f"FILE.py:function, reasoning-gym:TASK, verifiers:MODULE, or one of: {', '.join(OURS)}",
    )
