"""Generated problems: our own `tabletop`, and the tasks of reasoning-gym.

There is no pool to split: each split is drawn with its own seed, and a problem that an earlier split holds is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agon.data import tabletop
from agon.data.normalise import gold_text, make_problem, question_key, question_text
from agon.data.split import ProblemPool, unique
from agon.errors import DataError
from agon.types import Problem
from agon_judge import errors as judge
from agon_judge.auditing.gym import open_dataset

if TYPE_CHECKING:
    from agon.config import Scalar

GYM = "reasoning-gym:"
TABLETOP = "tabletop"
BROKEN = {
    "coin_flip": "its scorer pays 1.0 for the answer 0 on every row whose gold is below 1",
    "game_of_life_halting": "its scorer pays 1.0 for any text",
    "puzzle24": "its scorer pays 1.0 for any four numbers that make 24, and runs code that an answer contains",
    "complex_arithmetic": "its scorer pays 1.0 for the answer nan on every row",
    "game_of_life": "its scorer raises on answers that are JSON of a different shape",
    "prime_factorization": "its scorer raises on answers that are not numbers",
    "boxnet": "it gives no gold, and its scorer raises on plain numbers",
    **dict.fromkeys(
        (
            *("binary_matrix", "countdown", "intermediate_integration", "n_queens", "simple_integration"),
            *("spiral_matrix", "string_insertion"),
        ),
        "its scorer runs Python code that an answer contains (eval)",
    ),
    **dict.fromkeys(
        ("isomorphic_strings", "list_functions", "polynomial_multiplication", "ransom_note"),
        "one seed gives different problems in every process, so no run could be resumed",
    ),
    **dict.fromkeys(
        ("knight_swap", "word_ladder"), "one seed gives different golds in every process, so no run could be resumed"
    ),
    "composite": "it mixes tasks: name each in a source of its own",
}
"""Tasks that are refused, as an audit found them in reasoning-gym 0.1.25: those whose scorer pays an answer without
knowing the problem, raises on ordinary answers or runs code, and those that no run could resume. A scorer that is only
lenient (a letter more, the last digit of a decimal) is not refused: an answer must be almost right to profit."""
ROUNDS = 8
"""How often more problems are drawn to replace known ones; a task that still falls short is too small."""


def is_generated(preset: str | None) -> bool:
    return preset is not None and (preset == TABLETOP or preset.startswith(GYM))


def generate(
    preset: str,
    options: Mapping[str, Scalar],
    count: int,
    seed: int,
    known: Sequence[Problem] = (),
    *,
    template: str | None = None,
) -> ProblemPool:
    """`count` problems that are not among the known ones, in the order they were drawn; `template` is the source's."""
    taken = {question_key(problem.question) for problem in known}
    size = count
    for _ in range(ROUNDS):
        drawn = _draw(preset, options, size, seed, template)
        distinct, duplicates, conflicts = unique(drawn)
        fresh = [problem for problem in distinct if question_key(problem.question) not in taken]
        if len(fresh) >= count:
            return ProblemPool(tuple(fresh[:count]), preset, None, len(drawn), {}, duplicates, conflicts)
        size += 2 * (count - len(fresh))
    raise DataError(
        f"{preset} made {len(fresh)} new problems out of {len(drawn)}, not {count}"
        f" ({duplicates} duplicates, {conflicts} conflicting, {len(distinct) - len(fresh)} already in another split)",
        fix="take fewer problems, or choose options with more variety",
    )


def _draw(preset: str, options: Mapping[str, Scalar], count: int, seed: int, template: str | None) -> list[Problem]:
    if preset.startswith(GYM):
        return _gym(preset.removeprefix(GYM), options, count, seed, template)
    if unknown := sorted(set(options) - {"family", "difficulty"}):
        raise DataError(f"{preset} has no option {', '.join(unknown)}", fix="its options are family and difficulty")
    family, difficulty = options.get("family"), int(options.get("difficulty", 3))
    return tabletop.problems(str(family or "chain"), difficulty, count, seed)


def _gym(task: str, options: Mapping[str, Scalar], count: int, seed: int, template: str | None = None) -> list[Problem]:
    if task in BROKEN:
        fix = "choose a different task; `agon audit reasoning-gym:TASK` shows what its scorer pays for"
        raise DataError(f"reasoning-gym:{task} is refused: {BROKEN[task]}", fix=fix)
    try:
        _, entries = open_dataset(task, count, seed, options)
    except judge.InputError as error:
        raise DataError(error.message, fix=error.fix) from error
    if any(entry["answer"] is None for entry in entries):
        fix = "choose a task with one"
        raise DataError(f"reasoning-gym:{task} gives no gold, so no problem can be shown or checked", fix=fix)
    draw: dict[str, Any] = {"task": task, "options": dict(options), "seed": seed, "size": count}
    draw |= {"template": template} if template else {}
    return [_gym_problem(draw | {"index": index}, entry) for index, entry in enumerate(entries)]


def _gym_problem(draw: Mapping[str, Any], entry: Mapping[str, Any]) -> Problem:
    """`draw` is how the verifier makes the entry again. The metadata goes through JSON, so that a split's hash does not
    depend on how Python prints an object."""
    metadata = json.loads(json.dumps(entry.get("metadata", {}), default=str))
    meta = {"task": draw["task"], "metadata": metadata, "draw": dict(draw)}
    return make_problem(question_text(entry["question"]), gold_text(entry["answer"]), meta)
