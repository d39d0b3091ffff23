"""Read logged groups from parquet or JSONL files, a folder of them, or a run directory.

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

from agon.diagnose.groups import GroupLog, RewardRow
from agon.errors import DataError

LogLine = Mapping[str, Any]
"""A line of a log as it was written: a value by column."""

GROUP = ("group", "group_id", "problem_id", "prompt_id", "question_id", "uid", "prompt", "input", "question")
STEP = ("step", "global_step", "iteration")
TOTAL = ("total", "reward", "total_reward", "reward_total", "score")
CORRECT = ("correct", "is_correct", "acc")
TRUNCATED = ("truncated", "is_truncated", "finish", "finish_reason", "stop_reason")
OPPONENT = ("opponent_correct", "rival_correct", "opponent")
ADVANTAGE = ("advantage", "advantages")
AGON = {"problem_id", "rival", "draft_reward_correctness", "challenge_reward_correctness"}
JSONL = "write one JSON object per line"
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


def read(paths: Path | Sequence[Path], columns: Columns | None = None) -> list[GroupLog]:
    """The logs in files, folders or a run directory, as one: a single log, or one per stream of an Agon run."""
    given = [paths] if isinstance(paths, Path) else list(paths)
    lines = [line for path in given for file in _files(path) for line in _lines(file)]
    if not lines:
        raise DataError(f"{given[0]} holds no rows", fix="log at least one step, or name a different file")
    present = set[str]().union(*lines)
    if columns is None and present >= AGON:
        return _agon(lines)
    name = given[0].name if len(given) == 1 else f"{given[0].name} and {len(given) - 1} more"
    return [_log(name, lines, recognise(lines, present, columns or Columns()))]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    for folder in (path / "bouts", path / "completions", path):
        files = sorted([*folder.glob("*.parquet"), *folder.glob("*.jsonl")])
        if files:
            return files
    problem = "holds no .parquet or .jsonl file" if path.exists() else "does not exist"
    raise DataError(f"{path} {problem}", fix="name a parquet or JSONL file, a folder of them, or a run directory")


def _lines(path: Path) -> list[LogLine]:
    """The lines of a file, without the long texts of Agon's own files."""
    if path.suffix in {".jsonl", ".json", ".ndjson"}:
        return list(_json_lines(path))
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
        wanted = [name for name in names if not (set(names) >= AGON and name.endswith(LONG))]
        lines: list[LogLine] = pq.read_table(path, columns=wanted, partitioning=None).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", fix="name a parquet or .jsonl file") from error
    return lines


def _json_lines(path: Path) -> Iterable[LogLine]:
    if path.suffix == ".json" and (whole := _json_object(path)) is not None:
        return _table(path, whole)
    return _each_line(path)


def _json_object(path: Path) -> LogLine | None:
    """The one object that a file is; None for one of many lines."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _table(path: Path, whole: LogLine) -> Iterable[LogLine]:
    """The rows of a table as W&B stores it: names of columns, and rows of values."""
    if "log_history" in whole:
        fix = "train with log_completions=True, then: agon diagnose OUTPUT_DIR/completions"
        raise DataError(f"{path} holds means over batches, and no group can be seen in them", fix=fix)
    names, rows = whole.get("columns"), whole.get("data")
    if not isinstance(names, list) or not isinstance(rows, list):
        return [whole]
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise DataError(f"{path} is not a table: its rows do not fit its columns", fix=JSONL)
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def _each_line(path: Path) -> Iterable[LogLine]:
    with path.open("rb") as file:  # as bytes: a line separator of Unicode inside a text does not end the line
        for number, text in enumerate(file, start=1):
            if text.strip():
                yield _json_line(text, f"{path}:{number}")


def _json_line(text: bytes, place: str) -> LogLine:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}", fix=JSONL) from error
    if not isinstance(line, dict):
        raise DataError(f"{place} is not a JSON object", fix=JSONL)
    return line


def recognise(lines: Sequence[LogLine], present: set[str], given: Columns) -> Columns:
    """Fill in the columns that were not named, and refuse names that are not there."""
    if unknown := [name for name in given.names() if name not in present]:
        names = ", ".join(sorted(present))
        raise DataError(f"no column named {', '.join(unknown)}", fix=f"choose among the columns of the log: {names}")
    columns = replace(
        given,
        group=given.group or _group(present),
        total=given.total or _first(TOTAL, present - set(given.terms)),
        correct=given.correct or _first(CORRECT, present - set(given.terms)),
        truncated=given.truncated or _first(TRUNCATED, present),
        opponent=given.opponent or _first(OPPONENT, present),
        advantage=given.advantage or _first(ADVANTAGE, present),
    )
    terms = given.terms or _terms(lines, present, columns)
    if not terms and columns.total is None:
        raise DataError("no reward column was recognised", fix="name the reward columns with --terms a,b,c")
    return replace(columns, terms=terms)


def _group(present: set[str]) -> tuple[str, ...]:
    """The column that names the problem, within the step where the log has steps."""
    name = _first(GROUP, present)
    if name is None:
        raise DataError("no group column was recognised", fix="name it with --group COLUMN (or --group step,COLUMN)")
    step = _first(STEP, present)
    return (step, name) if step else (name,)


def _terms(lines: Sequence[LogLine], present: set[str], known: Columns) -> tuple[str, ...]:
    """Columns named after a reward; in TRL's files, every numeric column that is not something else."""
    taken = {*known.names(), *GROUP, *STEP, *TRUNCATED, *ADVANTAGE, "index"} - known.weights.keys()
    ordered = dict.fromkeys(name for line in lines for name in line)
    free = [name for name in ordered if name not in taken and _numeric(name, lines)]
    if "completion" in present and present & {"advantage", "prompt"}:
        return tuple(free)
    return tuple(name for name in free if "reward" in name.lower())


def _numeric(name: str, lines: Sequence[LogLine]) -> bool:
    values = [line[name] for line in lines if line.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _first(names: Sequence[str], present: set[str]) -> str | None:
    return next((name for name in names if name in present), None)


def _log(name: str, lines: Iterable[LogLine], columns: Columns) -> GroupLog:
    terms = columns.terms or (columns.total or "total",)
    columns = replace(columns, terms=terms)
    groups, steps = defaultdict[Hashable, list[RewardRow]](list), dict[Hashable, float | None]()
    for line in lines:
        key = tuple(_key(line.get(part)) for part in columns.group)
        groups[key].append(_row(line, columns))
        steps.setdefault(key, _step(line))
    return GroupLog(name, terms, tuple(map(tuple, groups.values())), steps=tuple(steps.values()))


def _step(line: LogLine) -> float | None:
    value = next((line[name] for name in STEP if name in line), None)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


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
        opponent=_key(line.get(columns.opponent)) if columns.opponent else None,
        advantage=_number(columns.advantage, line.get(columns.advantage)) if columns.advantage else None,
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


def _truncated(value: object) -> bool | None:
    return value in {"length", "max_tokens"} if isinstance(value, str) else _flag(value)


def _key(value: object) -> Hashable:
    """A value that can name a group: chat messages and other nested values by their JSON."""
    return value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)


def _agon(lines: Sequence[LogLine]) -> list[GroupLog]:
    """The standalone and the competitive stream of Agon's bouts; a challenge's opponent is the draft that pays it."""
    drafts = {(line["step"], line["problem_id"], line["index"]): line["draft_correct"] for line in lines}
    against = _rivals(lines)
    logs = [_log(f"standalone{against}", _taught(lines, "draft"), _stream("draft_", ("correctness", "format")))]
    challenges = [
        {**line, "opponent": drafts.get((line["step"], line["problem_id"], line["rival"]))}
        for line in _taught(lines, "challenge")
        if line["challenger"] is not None
    ]
    if challenges:
        bonus = tuple(name for name in ("conversion", "margin", "tiebreak") if _pays(challenges, name))
        columns = replace(_stream("challenge_", ("correctness", "format", *bonus)), opponent="opponent")
        log = _log(f"competitive{against}", challenges, columns)
        logs.append(replace(log, correctness=columns.terms[0], bonus=columns.terms[2:]))
    return logs


ROLES = {"draft": "drafter", "challenge": "challenger"}


def _guest(line: LogLine, side: str) -> str | None:
    """The version on a side that plays B without being B, such as an endpoint: nobody learns from what it wrote."""
    version = line.get(f"{side}_version")
    return version if version and line.get(ROLES[side]) == "b" and not version.startswith("b@") else None


def _taught(lines: Sequence[LogLine], side: str) -> list[LogLine]:
    """The lines whose side somebody learns from; all of them if nobody does."""
    return [line for line in lines if _guest(line, side) is None] or list(lines)


def _rivals(lines: Sequence[LogLine]) -> str:
    """Who played B without being B, to add to the name of a stream; empty where nobody did."""
    names = sorted({guest for line in lines for side in ROLES if (guest := _guest(line, side))})
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f" of A against {names[0]}{more}" if names else ""


def _stream(prefix: str, terms: tuple[str, ...]) -> Columns:
    return Columns(
        group=("step", "problem_id"),
        terms=tuple(f"{prefix}reward_{term}" for term in terms),
        total=f"{prefix}reward",
        correct=f"{prefix}correct",
        truncated=f"{prefix}finish",
        advantage=f"{prefix}advantage",
    )


def _pays(lines: Iterable[LogLine], bonus: str) -> bool:
    return any(line[f"challenge_reward_{bonus}"] for line in lines)
