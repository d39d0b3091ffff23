"""Rows as they are diagnosed, each checked once, and the groups that they form."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from agon_lens.columns import GROUP_IDS, Columns, not_a_number
from agon_lens.errors import LensError, Place
from agon_lens.formats import LogLine
from agon_lens.formatting import plural
from agon_lens.groups import GroupLog, RewardRow
from agon_lens.lines import LARGEST, STEPS, step_of
from agon_lens.texts import plain_text

CUT = {"length", "max_tokens"}
"""Reasons for which a completion ended that say that it was truncated."""
INFINITE = (
    "repair the reward function: this makes every advantage of the group NaN; to read the rest, leave the row out"
)


@dataclass(slots=True)
class _Rows:
    """The rows of one value of the group columns."""

    step: float | None
    rows: list[RewardRow] = field(default_factory=list)
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """The number of every row in the log."""
    characters: int = 0
    """How much text the rows hold."""

    def split(self, size: int) -> list[_Rows]:
        parts = range(0, len(self.rows), size)
        each = self.characters // len(parts)
        return [_Rows(self.step, self.rows[at : at + size], self.numbers[at : at + size], each) for at in parts]


def group_log(name: str, placed: Iterable[tuple[Place, LogLine]], columns: Columns) -> GroupLog:
    """The rewards of rows, group by group, in the order in which the groups appear."""
    columns = replace(columns, terms=columns.terms or (columns.total or "total",))
    found, missing, stepless = dict[Hashable, _Rows](), Counter[str](), 0
    by_step = next((part for part in columns.group if part in STEPS), None)
    for number, (place, line) in enumerate(placed):
        with place:
            row, step = _row(line, columns), step_of(line)
            key = tuple(key_of(line.get(part)) for part in columns.group)
            characters = sum(len(str(line.get(part) or "")) for part in (columns.prompt, columns.completion) if part)
        if row.total is not None:
            missing.update(part for part in columns.terms if line.get(part) is None)
        stepless += by_step is not None and key_of(line.get(by_step)) is None
        if (group := found.get(key)) is None:
            group = found[key] = _Rows(step)
        group.rows.append(row)
        group.numbers.append(number)
        group.characters += characters
    groups, notes = _split(list(found.values()), columns)
    rows = sum(len(group.rows) for group in groups)
    notes += [f"{part} is missing in {n} of {plural(rows, 'row')}: counted as 0" for part, n in missing.items()]
    if None not in (group.step for group in groups):  # files of several processes are read one after the other
        groups.sort(key=lambda group: group.step or 0.0)
    return GroupLog(
        name,
        columns.terms,
        tuple(tuple(group.rows) for group in groups),
        steps=tuple(group.step for group in groups),
        stepless=stepless,
        numbers=tuple(group.numbers for group in groups),
        characters=tuple(group.characters for group in groups),
        notes=tuple(notes),
    )


def _split(found: list[_Rows], columns: Columns) -> tuple[list[_Rows], list[str]]:
    """Rows that were normalised together, and notes on what was split.

    A prompt that occurs twice in a step was drawn as two groups, one after the other: where all other groups have one
    size, its rows are split by their order into groups of that size.
    """
    if not found or columns.group[-1] in GROUP_IDS:
        return found, []
    sizes = Counter(len(group.rows) for group in found)
    ((usual, _),) = sizes.most_common(1)
    several = sum(number for size, number in sizes.items() if size > usual and size % usual == 0)
    if usual < 2 or not several:
        return found, []
    where = "in a step" if len(columns.group) > 1 else "in the log"
    if sizes[usual] + several < len(found):
        what = (
            f"{plural(several, 'group')} of a multiple of the usual {usual} rows: perhaps a prompt that occurs several"
        )
        return found, [f"{what} times {where}; name a column that tells its groups apart with --group"]
    what = f"{plural(several, 'prompt')} occurring several times {where}"
    note = f"{what}: rows split by their order into groups of {usual}"
    return [part for group in found for part in group.split(usual)], [note]


def _row(line: LogLine, columns: Columns) -> RewardRow:
    """A row as it is diagnosed: every value is checked here."""
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


def _number(name: str | None, value: object) -> float | None:
    """A reward as a float; None and NaN are both "not graded"."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise not_a_number(name, value)
    if value != value:
        return None
    if abs(value) > LARGEST:
        raise LensError(f"column {name} holds a number beyond {LARGEST:g}, such as an infinite one", fix=INFINITE)
    return float(value)


def _flag(value: object) -> bool | None:
    return None if value is None or value != value else bool(value)


def _truncated(value: object) -> bool | None:
    return value in CUT if isinstance(value, str) else _flag(value)


def key_of(value: object) -> Hashable:
    """A value that can name a group: chat messages and other nested values by their JSON, long texts by a digest."""
    known = value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)
    if isinstance(known, str) and len(known) > 64:
        return blake2b(known.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return None if known != known else known
