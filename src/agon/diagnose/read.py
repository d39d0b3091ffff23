"""Read logged groups from parquet or JSONL files, a folder of them, or a run directory of Agon.

Columns are recognised by name where that is safe: Agon's bouts, TRL's `log_completions` files (step, prompt,
completion, one column per reward function, advantage), and verl's rollout dumps (step, input, output, score).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agon.diagnose.groups import Log, Row
from agon.errors import DataError

Record = Mapping[str, Any]

GROUP = ("group", "group_id", "problem_id", "prompt_id", "question_id", "uid", "prompt", "input", "question")
STEP = ("step", "global_step", "iteration")
TOTAL = ("total", "reward", "total_reward", "reward_total", "score")
CORRECT = ("correct", "is_correct", "acc")
TRUNCATED = ("truncated", "is_truncated", "finish", "finish_reason", "stop_reason")
OPPONENT = ("opponent_correct", "rival_correct", "opponent")
ADVANTAGE = ("advantage", "advantages")
AGON = {"problem_id", "rival", "draft_reward_correctness", "challenge_reward_correctness"}
LONG = ("_text", "_detail", "_prompt", "peek", "question")


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

    def names(self) -> list[str]:
        """Every column that is named."""
        optional = (self.total, self.correct, self.truncated, self.opponent, self.advantage)
        return [*self.group, *self.terms, *self.weights, *(name for name in optional if name)]


def read(path: Path, columns: Columns | None = None) -> list[Log]:
    """The logs in a file, a folder or a run directory: one, or one for each stream of an Agon run."""
    files = _files(path)
    records = [record for file in files for record in _records(file)]
    if not records:
        raise DataError(f"{path} holds no rows", fix="log at least one step, or name another file")
    present = set().union(*records)
    if columns is None and present >= AGON:
        return _agon(records)
    return [_log(path.name, records, recognise(records, present, columns or Columns()))]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    for folder in (path / "bouts", path / "completions", path):
        files = sorted([*folder.glob("*.parquet"), *folder.glob("*.jsonl")])
        if files:
            return files
    problem = "holds no .parquet or .jsonl file" if path.exists() else "does not exist"
    raise DataError(f"{path} {problem}", fix="name a parquet or JSONL file, a folder of them, or a run directory")


def _records(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without the long texts of Agon's own files."""
    if path.suffix in {".jsonl", ".json", ".ndjson"}:
        return list(_json_lines(path))
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
        wanted = [name for name in names if not (set(names) >= AGON and name.endswith(LONG))]
        rows: list[dict[str, Any]] = pq.read_table(path, columns=wanted, partitioning=None).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not readable parquet: {error}", fix="name a parquet or .jsonl file") from error
    return rows


def _json_lines(path: Path) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number} is not JSON: {error.msg}", fix="one JSON object a line") from error
        if not isinstance(record, dict):
            raise DataError(f"{path}:{number} is not a JSON object", fix="one JSON object a line")
        yield record


def recognise(records: Sequence[Record], present: set[str], given: Columns) -> Columns:
    """Fill in the columns that were not named, and refuse names that are not there."""
    unknown = [name for name in given.names() if name not in present]
    if unknown:
        has = ", ".join(sorted(present))
        raise DataError(f"no column named {', '.join(unknown)}", fix=f"choose among the columns of the log: {has}")
    found = replace(
        given,
        group=given.group or _group(present),
        total=given.total or _first(TOTAL, present - set(given.terms)),
        correct=given.correct or _first(CORRECT, present - set(given.terms)),
        truncated=given.truncated or _first(TRUNCATED, present),
        opponent=given.opponent or _first(OPPONENT, present),
        advantage=given.advantage or _first(ADVANTAGE, present),
    )
    terms = given.terms or _terms(records, present, found)
    if not terms and found.total is None:
        raise DataError("no reward column was recognised", fix="name the reward columns with --terms a,b,c")
    return replace(found, terms=terms)


def _group(present: set[str]) -> tuple[str, ...]:
    """The column that names the problem, within the step where the log has steps."""
    name = _first(GROUP, present)
    if name is None:
        raise DataError("no group column was recognised", fix="name it with --group COLUMN (or --group step,COLUMN)")
    step = _first(STEP, present)
    return (step, name) if step else (name,)


def _terms(records: Sequence[Record], present: set[str], known: Columns) -> tuple[str, ...]:
    """Columns named after a reward; in TRL's files, every numeric column that is not something else."""
    taken = {*known.names(), *GROUP, *STEP, *TRUNCATED, *ADVANTAGE, "index"} - known.weights.keys()
    ordered = dict.fromkeys(name for record in records for name in record)
    free = [name for name in ordered if name not in taken and _numeric(name, records)]
    if {"completion", "advantage"} <= present:
        return tuple(free)
    return tuple(name for name in free if "reward" in name.lower())


def _numeric(name: str, records: Sequence[Record]) -> bool:
    values = [record[name] for record in records if record.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _first(names: Sequence[str], present: set[str]) -> str | None:
    return next((name for name in names if name in present), None)


def _log(name: str, records: Iterable[Record], columns: Columns) -> Log:
    terms = columns.terms or (columns.total or "total",)
    columns = replace(columns, terms=terms)
    groups = defaultdict[Hashable, list[Row]](list)
    for record in records:
        groups[tuple(_key(record.get(part)) for part in columns.group)].append(_row(record, columns))
    return Log(name, terms, tuple(map(tuple, groups.values())))


def _row(record: Record, columns: Columns) -> Row:
    paid = {name: _number(name, record.get(name)) for name in columns.terms}
    weighted = [value and value * columns.weights.get(name, 1.0) for name, value in paid.items()]
    known = [value for value in weighted if value is not None]
    total = _number(columns.total, record.get(columns.total)) if columns.total else (sum(known) if known else None)
    return Row(
        terms=tuple(value or 0.0 for value in weighted),
        total=total,
        correct=_flag(record.get(columns.correct)) if columns.correct else None,
        truncated=_cut(record.get(columns.truncated)) if columns.truncated else None,
        opponent=_key(record.get(columns.opponent)) if columns.opponent else None,
        advantage=_number(columns.advantage, record.get(columns.advantage)) if columns.advantage else None,
    )


def _number(name: str | None, value: object) -> float | None:
    """A reward as a float; None and NaN are both "not graded"."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise DataError(f"column {name} holds {value!r}, which is not a number", fix="name numeric columns only")
    return None if math.isnan(value) else float(value)


def _flag(value: object) -> bool | None:
    return None if value is None else bool(value)


def _cut(value: object) -> bool | None:
    return value in {"length", "max_tokens"} if isinstance(value, str) else _flag(value)


def _key(value: object) -> Hashable:
    """A value that can name a group: chat messages and other nested values by their JSON."""
    return value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)


def _agon(records: list[dict[str, Any]]) -> list[Log]:
    """The standalone and the competitive stream of Agon's bouts; a challenge's opponent is the draft that pays it."""
    drafts = {(r["step"], r["problem_id"], r["index"]): r["draft_correct"] for r in records}
    logs = [_log("standalone", records, _stream("draft_", ("correctness", "format")))]
    challenges = [
        record | {"opponent": drafts.get((record["step"], record["problem_id"], record["rival"]))}
        for record in records
        if record["challenger"] is not None
    ]
    if challenges:
        bonus = tuple(name for name in ("conversion", "margin", "tiebreak") if _pays(challenges, name))
        columns = replace(_stream("challenge_", ("correctness", "format", *bonus)), opponent="opponent")
        logs.append(_log("competitive", challenges, columns))
    return logs


def _stream(prefix: str, terms: tuple[str, ...]) -> Columns:
    return Columns(
        group=("step", "problem_id"),
        terms=tuple(f"{prefix}reward_{term}" for term in terms),
        total=f"{prefix}reward",
        correct=f"{prefix}correct",
        truncated=f"{prefix}finish",
        advantage=f"{prefix}advantage",
    )


def _pays(records: Iterable[Record], bonus: str) -> bool:
    return any(record[f"challenge_reward_{bonus}"] for record in records)
