"""The lines of logs as they were written: parquet, JSONL, tables as W&B stores them, and folders of these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agon.errors import DataError, to_utf8

LogLine = Mapping[str, Any]
"""A line of a log as it was written: a value by column."""

AGON = {"problem_id", "rival", "draft_reward_correctness", "challenge_reward_correctness"}
"""Columns by which a line is one of Agon's own bouts."""
OURS = {"system", "draft_text"}
"""Keys of a result of `agon eval`, and of the bouts beside it."""
JSON_FILES = {".jsonl", ".json", ".ndjson"}
JSONL = "write one JSON object per line"
LONG = ("_text", "_detail", "_prompt", "peek", "question")
ANSWERED = ("draft_text", "challenge_text")
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
DAMAGED = "copy the file again if it is damaged, or name a different .parquet or .jsonl file"
FIX = "name a parquet or JSONL file, a folder of them, or a run directory"


class LogLines(NamedTuple):
    """The lines of logs, and what was skipped."""

    lines: list[LogLine]
    notes: list[str]


def read_lines(paths: Sequence[Path]) -> LogLines:
    """Every line of files and folders, in order; without the long texts of Agon's own files."""
    notes: list[str] = []
    lines = [line for path in paths for file in log_files(path) for line in _lines(file, notes)]
    if not lines:
        problem = ": ".join([f"{paths[0]} holds no rows", *notes[:1]])
        raise DataError(problem, fix="log at least one step, or name a different file")
    return LogLines(_spread(lines), notes)


def _spread(lines: list[LogLine]) -> list[LogLine]:
    """Lines in which a dict of numbers is one column per number: `reward.format` for {"reward": {"format": 0.5}}."""
    nested = {name for line in lines for name, value in line.items() if isinstance(value, dict)}
    numbers = {name for name in nested if all(_is_numbers(line.get(name)) for line in lines)}
    return [_spread_line(line, numbers) for line in lines] if numbers else lines


def _is_numbers(value: object) -> bool:
    """Whether a value is a dict of numbers, or missing."""
    if value is None:
        return True
    return isinstance(value, dict) and all(part is None or isinstance(part, int | float) for part in value.values())


def _spread_line(line: LogLine, names: set[str]) -> LogLine:
    parts = {f"{name}.{key}": value for name in line if name in names for key, value in (line[name] or {}).items()}
    return {name: value for name, value in line.items() if name not in names} | parts


def without_pages(paths: Sequence[Path]) -> list[Path]:
    """Paths as a shell expands FOLDER/*: without the pages that `agon view` wrote there."""
    return [path for path in paths if path.suffix != ".html"] or list(paths)


def log_files(path: Path) -> list[Path]:
    """The files of a log: itself, or those in a folder."""
    if path.is_file():
        return [path]
    if files := _found(path):
        return files
    problem = "holds no .parquet or .jsonl file" if path.exists() else "does not exist"
    raise DataError(f"{path} {problem}", fix=FIX)


def _found(path: Path) -> list[Path]:
    """Files of a log in the first folder that has some."""
    for folder in (path / "bouts", path / "completions", path):
        if files := sorted([*folder.glob("*.parquet"), *folder.glob("*.jsonl")], key=_by_number):
            return files
    return []


def is_foreign(path: Path) -> bool:
    """Whether a path is to be read as a log of any trainer: neither bouts of Agon nor a result of `agon eval`."""
    if path.is_dir():
        ours = (path / "config.yaml").is_file() or (path / "bouts").is_dir()
        return not ours and bool(files := _found(path)) and is_foreign(files[0])
    if path.suffix == ".parquet":
        return not _schema(path) >= AGON
    if path.suffix in JSON_FILES and path.is_file():
        first = (json_object(path) if path.suffix == ".json" else None) or _first_line(path)
        return first is None or not OURS & first.keys()
    return False


def _schema(path: Path) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return set()


def _first_line(path: Path) -> LogLine | None:
    with path.open("rb") as file:
        try:
            line = json.loads(file.readline())
        except (ValueError, RecursionError):
            return None
    return line if isinstance(line, dict) else None


def _by_number(path: Path) -> tuple[int, str]:
    """verl names its files by the step alone: 10.jsonl comes after 9.jsonl."""
    return (int(path.stem) if path.stem.isdecimal() else -1, path.name)


def _lines(path: Path, notes: list[str]) -> list[LogLine]:
    """The lines of one file; what is skipped is added to the notes."""
    if path.suffix in JSON_FILES:
        return list(_json_lines(path, notes))
    if path.suffix != ".parquet":
        raise DataError(f"{path} is not a log: neither parquet nor JSONL", fix=FIX)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
        ours = set(names) >= AGON
        wanted = [name for name in names if not ours or not name.endswith(LONG) or name in ANSWERED]
        lines: list[LogLine] = pq.read_table(path, columns=wanted, partitioning=None).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", fix=DAMAGED) from error
    return list(map(_with_echo, lines)) if ours else lines


def _with_echo(line: LogLine) -> LogLine:
    """One of Agon's bouts with `echo` (draft and challenge give the same answer) in place of its two texts."""
    draft, challenge = (ANSWER.findall(line.get(name) or "") for name in ANSWERED)
    same = bool(draft and challenge) and draft[-1].split() == challenge[-1].split()
    return {name: value for name, value in line.items() if name not in ANSWERED} | {"echo": same}


def _json_lines(path: Path, notes: list[str]) -> Iterable[LogLine]:
    if path.suffix == ".json" and (whole := json_object(path)) is not None:
        return _table(path, whole)
    return _each_line(path, notes)


def json_object(path: Path) -> LogLine | None:
    """The one object that a file is; None for one of many lines."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _table(path: Path, whole: LogLine) -> Iterable[LogLine]:
    """The rows of a table as W&B stores it: names of columns, and rows of values."""
    if "log_history" in whole:
        fix = "train with log_completions=True, then name OUTPUT_DIR/completions"
        raise DataError(f"{path} holds means over batches, and no group can be seen in them", fix=fix)
    names, rows = whole.get("columns"), whole.get("data")
    if not isinstance(names, list) or not isinstance(rows, list):
        return [whole]
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise DataError(f"{path} is not a table: its rows do not fit its columns", fix=JSONL)
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def _each_line(path: Path, notes: list[str]) -> Iterable[LogLine]:
    with path.open("rb") as file:  # as bytes: a line separator of Unicode inside a text does not end the line
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n") and not _is_json(text):  # only the last line has no end
                notes.append(f"skipped the last line of {path.name}, line {number}: it is incomplete")
            elif text.strip():
                yield _json_line(text, f"{path}:{number}")


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return not text.strip()
    return True


def _json_line(text: bytes, place: str) -> LogLine:
    try:
        line = json.loads(text)
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not valid UTF-8", fix=to_utf8(place.rpartition(":")[0])) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}", fix=JSONL) from error
    if not isinstance(line, dict):
        raise DataError(f"{place} is not a JSON object", fix=JSONL)
    return line
