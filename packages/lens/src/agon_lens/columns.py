"""Which column of a log is what, and which of its lines are one group.

Columns are recognised by name where that is safe: TRL's `log_completions` files (step, prompt, completion, one column
per reward function, advantage), and verl's rollout dumps (step, input, output, score). Files of `formats.py` say it
themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from textwrap import shorten
from typing import NamedTuple

from agon_lens.errors import LensError
from agon_lens.formatting import plural
from agon_lens.groups import GroupLog, RewardRow
from agon_lens.lines import LARGEST, STEPS, LogLine, Survey, step_of
from agon_lens.texts import plain_text

GROUP = ("group", "group_id", "problem_id", "prompt_id", "question_id", "uid", "prompt", "input", "question")
GROUP_IDS = ("group", "group_id", "uid")
"""Columns that name a group, not what was asked: whatever shares their value is one group."""
TOTAL = ("total", "reward", "total_reward", "reward_total", "score")
CORRECT = ("correct", "is_correct", "acc")
TRUNCATED = ("truncated", "is_truncated", "finish", "finish_reason", "stop_reason")
OPPONENT = ("opponent_correct", "rival_correct", "opponent")
ADVANTAGE = ("advantage", "advantages")
PROMPT = ("prompt", "input", "question", "problem", "query", "messages")
COMPLETION = ("completion", "output", "response", "generation", "rollout", "text")
GOLD = ("gts", "gold", "ground_truth", "answer", "solution", "reference", "target")


COUNTS = {
    "num", "n", "count", "counts", "token", "tokens", "char", "chars", "length", "len", "lengths", "step", "steps",
    "epoch", "epochs", "iteration", "index", "idx", "id", "ids", "seed", "rank", "turn", "turns", "time", "timestamp",
    "seconds", "duration",
}  # fmt: skip
"""Words in the name of a number that is not a reward ..."""
PAID = {"reward", "rewards", "score", "scores", "penalty", "bonus", "punishment"}
"""... unless one of these is in it too."""
INFINITE = (
    "repair the reward function: this makes every advantage of the group NaN; to read the rest, leave the row out"
)
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

    def names(self) -> list[str]:
        """Every column that is named."""
        rewards = (self.total, self.correct, self.truncated, self.opponent, self.advantage)
        optional = (*rewards, self.prompt, self.completion, self.gold)
        return [*self.group, *self.terms, *self.weights, *(name for name in optional if name)]


def recognise(survey: Survey, given: Columns) -> Columns:
    """Fill in the columns that were not named: those of a known format, then by name. Refuse names that are not
    there."""
    present = set(survey.names)
    if unknown := [name for name in given.names() if name not in present]:
        names = ", ".join(sorted(present))
        raise LensError(f"no column named {', '.join(unknown)}", fix=f"choose among the columns of the log: {names}")
    if survey.format:
        given = _with_format(given, survey)
    texts = present - set(given.terms) - survey.numeric
    columns = replace(
        given,
        group=given.group or _group(present),
        total=given.total or _first(TOTAL, present - set(given.terms)),
        correct=given.correct or _first(CORRECT, present - set(given.terms)),
        truncated=given.truncated or _first(TRUNCATED, present),
        opponent=given.opponent or _first(OPPONENT, present),
        advantage=given.advantage or _first(ADVANTAGE, present),
        prompt=given.prompt or _first(PROMPT, texts),
        completion=given.completion or _first(COMPLETION, texts),
        gold=given.gold or _first(GOLD, _golds(survey) - set(given.terms)),
    )
    # a reward that is also named as what says "right" stays a reward
    paid = _is_paid(given.correct) if given.correct else _is_trls(survey) and columns.correct in survey.floats
    terms = given.terms or _terms(survey, replace(columns, correct=None) if paid else columns)
    if not terms and columns.total is None:
        raise _unrecognised(survey)
    return replace(columns, terms=terms)


def _is_trls(survey: Survey) -> bool:
    """Whether a log has the columns of TRL's files, in which every column of floats is a reward, and no total."""
    present = set(survey.names)
    return not survey.format and {"prompt", "completion", "advantage"} <= present and not present & {*TOTAL}


def _golds(survey: Survey) -> set[str]:
    """Columns that can be golds: texts and whole numbers; one of floats is a reward that is called so."""
    return {*GOLD}.intersection(survey.names) - survey.floats


def _with_format(given: Columns, survey: Survey) -> Columns:
    """The columns of a known format where no others were named; its total holds for its own terms only."""
    known = dict(survey.format.columns) if survey.format else {}
    if given.terms:
        known = {name: value for name, value in known.items() if name not in ("terms", "total")}
    present = {*survey.names}
    usable = {name: value for name, value in known.items() if isinstance(value, tuple) or value in present}
    return replace(given, **{name: value for name, value in usable.items() if not getattr(given, name)})


def _unrecognised(survey: Survey) -> LensError:
    """No reward column: say which columns could be one."""
    for name in sorted(filter(_is_paid, survey.names)):
        if name in survey.nested:
            return _not_a_number(name, survey.nested[name])
    numbers = ", ".join(sorted(survey.numeric)) or "none"
    fix = f"name the reward columns with --terms a,b,c; columns of numbers: {numbers}"
    return LensError("no reward column was recognised", fix=fix)


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
    name = _first(GROUP, present)
    if name is None:
        fix = f"name it with --group COLUMN or --group step,COLUMN; columns of the log: {', '.join(sorted(present))}"
        raise LensError("no group column was recognised", fix=fix)
    step = _first(STEPS, present)
    return (step, name) if step else (name,)


def _terms(survey: Survey, known: Columns) -> tuple[str, ...]:
    """Columns named after a reward; in TRL's files, every numeric column that is not something else."""
    free, present = _free(survey, known), set(survey.names)
    if "completion" in present and present & {"advantage", "prompt"} and not survey.format:
        return tuple(name for name in free if not _is_count(name))
    return tuple(name for name in free if _is_paid(name))


def _free(survey: Survey, known: Columns) -> list[str]:
    """Columns of numbers that are nothing else, in the order of the log."""
    taken = {
        *known.names(),
        *GROUP,
        *STEPS,
        *TRUNCATED,
        *ADVANTAGE,
        *_golds(survey),
        "index",
        *(("tokens", "limit") if survey.format else ()),
    }
    taken -= known.weights.keys() - {*known.terms}
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
    known = (GROUP, TOTAL, CORRECT, TRUNCATED, OPPONENT, ADVANTAGE, PROMPT, COMPLETION, GOLD, STEPS)
    return name == "index" or any(name in names for names in known) or _is_count(name)


def _first(names: Sequence[str], present: set[str]) -> str | None:
    return next((name for name in names if name in present), None)


class _Placed(NamedTuple):
    """A row, the number of its line in the log, and how much text the line holds."""

    row: RewardRow
    number: int
    characters: int
    step: float | None


def group_log(name: str, lines: Iterable[LogLine], columns: Columns) -> GroupLog:
    """The rewards of lines, group by group, in the order in which the groups appear."""
    terms = columns.terms or (columns.total or "total",)
    columns = replace(columns, terms=terms)
    placed, missing = defaultdict[Hashable, list[_Placed]](list), Counter[str]()
    for number, line in enumerate(lines):
        try:
            row = _row(line, columns)
        except LensError as error:
            at = f"row {number + 1}" if (step := step_of(line)) is None else f"step {step:g}, row {number + 1}"
            raise LensError(f"{at}: {error.message}", fix=error.fix) from error
        place = _Placed(row, number, _characters(line, columns), step_of(line))
        if row.total is not None:
            missing.update(name for name in terms if line.get(name) is None)
        placed[tuple(key_of(line.get(part)) for part in columns.group)].append(place)
    groups, notes = _split(list(placed.values()), columns)
    rows = sum(map(len, groups))
    notes += [
        f"{name} is missing in {number} of {plural(rows, 'row')}: counted as 0" for name, number in missing.items()
    ]
    steps = [group[0].step for group in groups]
    if None not in steps:  # files of several processes are read one after the other
        groups.sort(key=lambda group: group[0].step or 0.0)
    return GroupLog(
        name,
        terms,
        tuple(tuple(place.row for place in group) for group in groups),
        steps=tuple(group[0].step for group in groups),
        numbers=tuple(tuple(place.number for place in group) for group in groups),
        characters=tuple(sum(place.characters for place in group) for group in groups),
        notes=tuple(notes),
    )


def _split(found: list[list[_Placed]], columns: Columns) -> tuple[list[list[_Placed]], list[str]]:
    """Rows that were normalised together, and notes on what was split.

    A prompt that occurs twice in a step was drawn as two groups, one after the other: where all other groups have one
    size, its rows are split by their order into groups of that size.
    """
    if not found or columns.group[-1] in GROUP_IDS:
        return found, []
    sizes = Counter(map(len, found))
    ((usual, _),) = sizes.most_common(1)
    several = sum(number for size, number in sizes.items() if size > usual and size % usual == 0)
    if usual < 2 or not several:
        return found, []
    where = "in a step" if len(columns.group) > 1 else "in the log"
    if sizes[usual] + several < len(found):
        note = (
            f"{plural(several, 'group')} of a multiple of the usual {usual} rows: perhaps a prompt that occurs several "
        )
        return found, [f"{note}times {where}; name a column that tells its groups apart with --group"]
    parts = [group[at : at + usual] for group in found for at in range(0, len(group), usual)]
    note = (
        f"{plural(several, 'prompt')} occurring several times {where}: rows split by their order into groups of {usual}"
    )
    return parts, [note]


def _row(line: LogLine, columns: Columns) -> RewardRow:
    paid = {name: _number(name, line.get(name)) for name in columns.terms}
    weighted = [value and value * columns.weights.get(name, 1.0) for name, value in paid.items()]
    known = [value for value in weighted if value is not None]
    total = _number(columns.total, line.get(columns.total)) if columns.total else (sum(known) if known else None)
    return RewardRow(
        terms=tuple(value or 0.0 for value in weighted),
        total=total,
        correct=_flag(line.get(columns.correct)) if columns.correct else None,
        truncated=_truncated(line.get(columns.truncated)) if columns.truncated else None,
        opponent=key_of(line.get(columns.opponent)) if columns.opponent else None,
        advantage=_number(columns.advantage, line.get(columns.advantage)) if columns.advantage else None,
        text=_fingerprint(line.get(columns.completion)) if columns.completion else None,
    )


def _fingerprint(completion: object) -> int | None:
    """A number that is the same for equal texts; None for an empty one."""
    text = " ".join(plain_text(completion).split())
    return hash(text) if text else None


def _characters(line: LogLine, columns: Columns) -> int:
    """About how much text of a line a page would show."""
    return sum(len(str(line.get(name) or "")) for name in (columns.prompt, columns.completion) if name)


def _number(name: str | None, value: object) -> float | None:
    """A reward as a float; None and NaN are both "not graded"."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise _not_a_number(name, value)
    if value != value:
        return None
    if abs(value) > LARGEST:
        raise LensError(f"column {name} holds a number beyond {LARGEST:g}, such as an infinite one", fix=INFINITE)
    return float(value)


def _not_a_number(name: str | None, value: object) -> LensError:
    fix = PER_TERM if isinstance(value, list | dict) else "name numeric columns only"
    return LensError(f"column {name} holds {shorten(repr(value), 80)}, which is not a number", fix=fix)


def _flag(value: object) -> bool | None:
    return None if value is None or value != value else bool(value)


def _truncated(value: object) -> bool | None:
    return value in {"length", "max_tokens"} if isinstance(value, str) else _flag(value)


def key_of(value: object) -> Hashable:
    """A value that can name a group: chat messages and other nested values by their JSON, long texts by a digest."""
    known = value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)
    if isinstance(known, str) and len(known) > 64:
        return blake2b(known.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return known
