"""The problems of a taskset of verifiers: its tasks are a pool, from which splits are filled as from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agon.data.normalise import gold_text, make_problem, question_text
from agon.data.split import ProblemPool, unique
from agon.errors import DataError
from agon_judge import errors as judge
from agon_judge.auditing import open_environment
from agon_judge.auditing.environment import Row, Target

if TYPE_CHECKING:
    from agon.config import Scalar

MOST = 20_000
"""Tasks that are read of a taskset: some have no end."""


def read_environment(env: str, options: Mapping[str, Scalar], template: str | None) -> ProblemPool:
    """All problems of an environment. `draw` is how its verifier finds a row again."""
    target = Target(env, take=MOST, options=dict(options))
    try:
        opened: Any = open_environment(target)
        rows = opened.rows("train")
        needy = next(((n, needs) for n, row in enumerate(rows) if (needs := opened.needs(row))), None)
    except judge.JudgeError as error:
        raise DataError(error.message, fix=error.fix) from error
    except Exception as error:  # somebody else's code may raise anything
        what = f"{env} cannot be opened: {type(error).__name__}: {error}"
        raise DataError(
            what[:500], fix="see whether its options are right, and what it does when it is loaded"
        ) from error
    if not rows:
        raise DataError(f"{env} has no tasks", fix="choose options with which it has some")
    if needy:
        raise DataError(
            f"{env} needs {needy[1]} to score a reply to task {needy[0]}, and is given an answer alone",
            fix="choose a taskset, or options of it, whose rewards read the reply alone",
        )
    draw = {"env": env, "options": dict(options), "size": MOST} | ({"template": template} if template else {})
    try:
        problems = [_problem(row, draw | {"index": index}) for index, row in enumerate(rows)]
    except ValueError as error:
        raise DataError(f"{env}: {error}", fix="choose a taskset whose tasks are plain text") from error
    distinct, duplicates, conflicts = unique(problems)
    return ProblemPool(distinct, env, None, len(rows), {}, duplicates, conflicts)


def _problem(row: Row, draw: Mapping[str, Any]) -> Any:
    """A problem without a gold is judged all the same: many answers may be right."""
    return make_problem(question_text(row.question), gold_text(row.gold) if row.gold else "", {"draw": dict(draw)})
