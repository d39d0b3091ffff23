"""Which column of a log is what.

Columns are recognised by name where that is safe: TRL's `log_completions` files (step, prompt, completion, one column
per reward function, advantage), and verl's rollout dumps (step, input, output, score). Files of `formats.py` say it
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from textwrap import shorten
from typing import Any

from agon_lens.errors import LensError
from agon_lens.lines import STEPS, Survey

GROUP = ("group", "group_id", "problem_id", "prompt_id", "question_id", "uid", "prompt", "input", "question")
GROUP_IDS = ("group", "group_id", "uid")
"""Columns that name a group, not what was asked: whatever shares their value is one group."""
GOLD = ("gts", "gold", "ground_truth", "answer", "solution", "reference", "target")
NAMES = {
    "total": ("total", "reward", "total_reward", "reward_total", "score"),
    "correct": ("correct", "is_correct", "acc"),
    "truncated": ("truncated", "is_truncated", "finish", "finish_reason", "stop_reason"),
    "opponent": ("opponent_correct", "rival_correct", "opponent"),
    "advantage": ("advantage", "advantages"),
    "prompt": ("prompt", "input", "question", "problem", "query", "messages"),
    "completion": ("completion", "output", "response", "generation", "rollout", "text"),
    "gold": GOLD,
}
"""The names by which a column is known, the first that is there."""
COUNTS = {
    "num", "n", "count", "counts", "token", "tokens", "char", "chars", "length", "len", "lengths", "step", "steps",
    "epoch", "epochs", "iteration", "index", "idx", "id", "ids", "seed", "rank", "turn", "turns", "time", "timestamp",
    "seconds", "duration",
}  # fmt: skip
"""Words in the name of a number that is not a reward ..."""
PAID = {"reward", "rewards", "score", "scores", "penalty", "bonus", "punishment"}
"""... unless one of these is in it too."""
PER_TERM = 'log one row per completion, and its rewards by name: {"correct": 1.0, "format": 0.5}, or a column for each'


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what. What is left empty is recognised by name, or not used."""

    group: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    total: str | None = None
    correct: str | None = None
    truncated: str | None = None
    opponent: str | None = None
    advantage: str | None = None
    prompt: str | None = None
    completion: str | None = None
    gold: str | None = None

    def __post_init__(self) -> None:
        for name in ("group", "terms"):  # one name is a column, not its letters
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))

    def names(self) -> list[str]:
        """Every column that is named."""
        return [*self.group, *self.terms, *self.weights, *(name for part in NAMES if (name := getattr(self, part)))]


def named_columns(columns: Columns | None, names: Mapping[str, Any]) -> Columns | None:
    """Columns that were given as keywords: `terms=["accuracy"], group="uid"`."""
    known = [each.name for each in fields(Columns)]
    if unknown := [name for name in names if name not in known]:
        raise LensError(f"there is no argument {unknown[0]}", fix=f"columns are named by {', '.join(known)}")
    return replace(columns or Columns(), **names) if names else columns


def recognise(survey: Survey, given: Columns) -> Columns:
    """Fill in the columns that were not named: those of a known format, then by name. Refuse names that are not
    there."""
    present = set(survey.names)
    if unknown := [name for name in given.names() if name not in present]:
        names = ", ".join(sorted(present))
        raise LensError(f"no column named {', '.join(unknown)}", fix=f"choose among the columns of the log: {names}")
    if survey.format:
        given = _with_format(given, survey)
    rest = present - set(given.terms)
    among = {"total": rest, "correct": rest, "gold": _golds(survey) & rest}
    among |= dict.fromkeys(("prompt", "completion"), rest - survey.numeric)
    found: dict[str, Any] = {part: getattr(given, part) or _first(part, among.get(part, present)) for part in NAMES}
    columns = replace(given, group=given.group or _group(present), **found)
    # a reward that is also named as what says "right" stays a reward
    paid = _is_paid(given.correct) if given.correct else _is_trls(survey) and columns.correct in survey.floats
    terms = given.terms or _terms(survey, replace(columns, correct=None) if paid else columns)
    if not terms and columns.total is None:
        raise _unrecognised(survey)
    return replace(columns, terms=terms)


def _first(part: str, present: set[str]) -> str | None:
    return next((name for name in NAMES[part] if name in present), None)


def _is_trls(survey: Survey) -> bool:
    """Whether a log has the columns of TRL's files, in which every column of floats is a reward, and no total."""
    present = set(survey.names)
    return not survey.format and {"prompt", "completion", "advantage"} <= present and not present & {*NAMES["total"]}


def _golds(survey: Survey) -> set[str]:
    """Columns that can be golds: texts and whole numbers; one of floats is a reward that is called so."""
    return {*GOLD}.intersection(survey.names) - survey.floats


def _with_format(given: Columns, survey: Survey) -> Columns:
    """The columns of a known format where no others were named; its total holds for its own terms only."""
    known = dict(survey.format.columns) if survey.format else {}
    if given.terms:
        known = {name: value for name, value in known.items() if name not in ("terms", "total")}
    known["group"] = tuple(name for name in known.get("group", ()) if name in survey.types)
    usable = {name: value for name, value in known.items() if isinstance(value, tuple) or value in survey.names}
    return replace(given, **{name: value for name, value in usable.items() if not getattr(given, name)})


def _unrecognised(survey: Survey) -> LensError:
    """No reward column: say which columns could be one."""
    for name in sorted(filter(_is_paid, survey.names)):
        if name in survey.nested:
            return not_a_number(name, survey.nested[name])
    numbers = ", ".join(sorted(survey.numeric)) or "none"
    fix = f"name the reward columns with --terms a,b,c; columns of numbers: {numbers}"
    return LensError("no reward column was recognised", fix=fix)


def not_a_number(name: str | None, value: object) -> LensError:
    fix = PER_TERM if isinstance(value, list | dict) else "name numeric columns only"
    return LensError(f"column {name} holds {shorten(repr(value), 80)}, which is not a number", fix=fix)


def guessed(survey: Survey, known: Columns, given: Columns) -> list[str]:
    """Which columns were taken for rewards, which were not, and what changes that; nothing where they were named."""
    if given.terms:
        return []
    written = f"read as a file of {survey.format.name}; " if survey.format else ""
    total = f"; total: {known.total}" if known.terms and known.total else ""
    left = f"; not: {', '.join(free)}" if (free := _free(survey, known)) else ""
    terms = ", ".join(known.terms or (known.total or "",))
    how = f"(name others with --terms{' and --total' if total else ''})"
    notes = [f"{written}taken as rewards: {terms}{total}{left} {how}"]
    return [*notes, survey.format.note] if survey.format and survey.format.note and left else notes


def _group(present: set[str]) -> tuple[str, ...]:
    """The column that names the problem, within the step where the log has steps."""
    steps, names = ([name for name in known if name in present] for known in (STEPS, GROUP))
    if not names:
        fix = f"name it with --group COLUMN or --group step,COLUMN; columns of the log: {', '.join(sorted(present))}"
        raise LensError("no group column was recognised", fix=fix)
    return (*steps[:1], names[0])


def _terms(survey: Survey, known: Columns) -> tuple[str, ...]:
    """Columns named after a reward; in TRL's files, every numeric column that is not something else."""
    free, present = _free(survey, known), set(survey.names)
    if "completion" in present and present & {"advantage", "prompt"} and not survey.format:
        return tuple(name for name in free if not _is_count(name))
    return tuple(name for name in free if _is_paid(name))


def _free(survey: Survey, known: Columns) -> list[str]:
    """Columns of numbers that are nothing else, in the order of the log."""
    taken = {*known.names(), *GROUP, *STEPS, *NAMES["truncated"], *NAMES["advantage"], *_golds(survey), "index"}
    taken -= known.weights.keys() - {*known.terms}
    taken |= {"tokens", "limit"} if survey.format else set()
    return [name for name in survey.names if name not in taken and name in survey.numeric]


def _is_paid(name: str) -> bool:
    """Whether a column is named after a reward, or is a part of a score."""
    return "reward" in name.lower() or name.partition(".")[0].lower() in {"score", "scores"}


def _is_count(name: str) -> bool:
    """Whether a column is named after a count or a place, such as num_tokens; `length_reward` is a reward."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    return bool(words & COUNTS) and not words & PAID


def is_recognised(name: str) -> bool:
    """Whether a column of this name is taken for something other than a reward."""
    return name == "index" or any(name in names for names in (GROUP, STEPS, *NAMES.values())) or _is_count(name)
