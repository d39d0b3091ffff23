"""Rows of local files: JSONL, JSON arrays, parquet and CSV, with a column map.

Every row must be usable, or the whole file is refused with the numbers of the bad rows, by reason. Row numbers are what
an editor shows: lines of a text file (a header is line 1), rows of a parquet file from 1.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agon.data.normalise import gold_text, is_chat, make_problem, question_text
from agon.data.split import ProblemPool, unique
from agon.errors import DataError, to_utf8
from agon.types import Problem
from agon_judge.unit_tests import unit_tests

RawRow = Mapping[str, Any]
"""A row as it stands in a file: a value by column."""
LeftOut = str
"""Why a rule leaves out a row that could be used, as it is counted: "with a binary answer"."""
Numbered = Iterator[tuple[str, "RawRow | str | MissingFieldError"]]
"""Row numbers with rows; where a row cannot be read, the reason as text."""
FIELDS = ("question", "answer", "tests")
"""What a problem is made of; every other mapped column is meta."""
RESERVED = "draw"
"""How an environment finds a row again: it names code, so no file may say it."""
ALIASES = {
    "question": ("question", "problem", "prompt", "input", "query", "instruction", "text"),
    "answer": ("answer", "solution", "final_answer", "ground_truth", "gold", "target", "label", "expected", "output"),
}
"""Names under which data sets publish what we call question and answer, the likeliest first."""
TESTS = ("tests", "test_cases", "unit_tests")
"""The same for the tests of a code problem."""
NOT_UTF8 = "not valid UTF-8"
SHOWN = 10
"""Reasons listed for a refused file, and row numbers per reason."""


class MissingFieldError(ValueError):
    """A row without a field that was asked for; `present` are those that it has."""

    def __init__(self, missing: Sequence[str], present: Sequence[str]) -> None:
        super().__init__(f"no field {', '.join(missing)} (it has {', '.join(sorted(present)) or 'none'})")
        self.present = tuple(present)


NumberedLines = Iterator[tuple[int, RawRow | str | MissingFieldError]]


class Faults:
    """Numbers of the rows that cannot be used, by reason."""

    def __init__(self) -> None:
        self.rows: dict[str, list[str]] = {}
        self.present: tuple[str, ...] = ()
        """Fields of a row that has none of the names that were asked for."""

    def add(self, error: ValueError, row: str) -> None:
        self.rows.setdefault(str(error), []).append(row)
        if isinstance(error, MissingFieldError):
            self.present = error.present

    @property
    def counts(self) -> dict[str, int]:
        return {reason: len(rows) for reason, rows in self.rows.items()}

    def refuse(self, origin: str, total: int, allowed: float = 0.0) -> None:
        """Raise when more than the allowed share of rows is unusable."""
        bad = sum(self.counts.values())
        if bad and bad > allowed * total:
            reasons = "; ".join(f"{reason}: {_listed(rows)}" for reason, rows in list(self.rows.items())[:SHOWN])
            fix = map_columns(self.present) if len(self.rows) == 1 and self.present else "repair or remove these rows"
            if any(reason.startswith("tests") for reason in self.rows):
                fix = "write the tests of a row as pairs, [[input, output], ...]; or repair or remove these rows"
            if NOT_UTF8 in self.rows:
                fix = f"{to_utf8(origin)}; or repair or remove these rows"
            raise DataError(f"{bad} of {total} rows of {origin} cannot be used: {reasons}", fix=fix)


def _listed(rows: Sequence[str]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(rows[:SHOWN])}{more}"


def read_file(path: str, columns: Mapping[str, str]) -> ProblemPool:
    """The problems of a file or folder; `columns` names the columns of question, answer, tests and meta.

    Problems with tests need no answer: theirs, if mapped, is a program that passes. `answer: ""` is a file without
    answers, whose problems a function of the user judges.
    """
    names = {"question": "question", **({} if "tests" in columns else {"answer": "answer"}), **columns}
    names = {ours: theirs for ours, theirs in names.items() if theirs or ours != "answer"}
    if RESERVED in names:
        raise DataError(
            f"columns: the name {RESERVED} belongs to problems of environments", fix="map it to another name"
        )
    chats = 0

    def problem(row: RawRow) -> Problem:
        nonlocal chats
        chats += is_chat(row[names["question"]])
        meta = {ours: row[theirs] for ours, theirs in names.items() if ours not in FIELDS}
        given = {names[ours]: row[names[ours]] for ours in ("question", "answer") if ours in names}
        given["prompt"] = meta.get("prompt", row[names["question"]])
        answer = gold_text(row[names["answer"]]) if "answer" in names else ""
        tests = unit_tests(row[names["tests"]]) if "tests" in names else None
        return replace(make_problem(question_text(row[names["question"]]), answer, meta, tests), given=given)

    pool = collect(rows(files(Path(path)), list(names.values())), problem, origin=path)
    return replace(pool, chats=chats)


def collect(
    numbered: Numbered,
    problem: Callable[[RawRow], Problem | LeftOut],
    *,
    origin: str,
    revision: str | None = None,
    allowed: float = 0.0,
) -> ProblemPool:
    """A pool from rows; `problem` says why its rule leaves a row out, and raises ValueError for a bad one."""
    faults, kept, total, filtered = Faults(), list[Problem](), 0, Counter[str]()
    for number, row in numbered:
        total += 1
        try:
            made = problem(_readable(row))
        except ValueError as error:
            faults.add(error, number)
            continue
        if isinstance(made, Problem):
            kept.append(made)
        else:
            filtered[made] += 1
    if total == 0:
        raise DataError(f"{origin} has no rows", fix="name a file with at least one problem")
    faults.refuse(origin, total, allowed)
    problems, duplicates, conflicts = unique(kept)
    return ProblemPool(problems, origin, revision, total, dict(filtered), duplicates, conflicts, faults.counts)


def _readable(row: RawRow | str | MissingFieldError) -> RawRow:
    if isinstance(row, MissingFieldError):
        raise row
    if isinstance(row, str):
        raise ValueError(row)
    return row


def guess_columns(present: Sequence[str]) -> dict[str, str]:
    """Our names and the columns that hold them, as far as their names say so, "..." where they do not.

    Tests make a code problem, which needs no answer."""
    chosen = {ours: next((name for name in names if name in present), "...") for ours, names in ALIASES.items()}
    if tests := next((name for name in TESTS if name in present), None):
        chosen = {ours: theirs for ours, theirs in chosen.items() if theirs != "..." or ours == "question"}
        chosen["tests"] = tests
    return chosen


def map_columns(present: Sequence[str]) -> str:
    """The line that maps these columns."""
    chosen = guess_columns(present)
    line = ", ".join(f"{ours}: {theirs}" for ours, theirs in chosen.items())
    words = " ".join(f"columns.{ours}={theirs}" for ours, theirs in chosen.items())
    return f"map its columns: `columns: {{{line}}}` under its path in a config, or {words} with `agon data`"


def files(path: Path, prefix: str = "") -> list[Path]:
    """The file itself, or all files of a folder in a known format whose names begin with `prefix`."""
    if path.is_dir():
        paths = sorted(file for file in path.rglob(f"{prefix}*") if file.suffix in IN_FOLDERS and file.is_file())
    elif path.is_file():
        paths = [path]
    else:
        fix = "check the path: one in a config is relative to the config, one on the command line to where you are"
        raise DataError(f"{path} does not exist", fix=fix)
    if not paths:
        raise DataError(f"{path} holds no {prefix}*.jsonl, .parquet or .csv file", fix="name the file itself")
    return paths


def columns_of(path: Path) -> list[str]:
    """The columns of a file, or of the first file of a folder; of JSON, those of its first object."""
    first = files(path)[0]
    if first.suffix == ".parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(first).names)
    if first.suffix == ".csv":
        return next(csv.reader(io.StringIO(_decoded(first), newline="")), [])
    missing = next((row for _, row in rows([first], ["\0"]) if isinstance(row, MissingFieldError)), None)
    return list(missing.present) if missing else []


def rows(paths: Sequence[Path], columns: Sequence[str]) -> Numbered:
    """The named columns of all rows, numbered."""
    for path in paths:
        if path.suffix not in READERS:
            raise DataError(
                f"{path} is not a JSONL, JSON, parquet or CSV file",
                fix=f"write the problems in one of these, and end the name with {', '.join(READERS)}",
            )
        for number, row in READERS[path.suffix](path, columns):
            yield str(number) if len(paths) == 1 else f"{path.name}:{number}", row


def _jsonl(path: Path, columns: Sequence[str]) -> NumberedLines:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.lstrip(codecs.BOM_UTF8).lstrip().startswith(b"["):
                message = f"{path} is a JSON array, not one object per line"
                raise DataError(message, fix=f"rename it: mv {path} {path.with_suffix('.json')}")
            if line.strip():
                yield number, _json_row(line, columns)


def _json(path: Path, columns: Sequence[str]) -> NumberedLines:
    """The objects of an array, counted from 1; a file that is no array is read line by line."""
    try:
        whole = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        whole = None
    if not isinstance(whole, list):
        yield from _jsonl(path, columns)
        return
    for number, row in enumerate(whole, start=1):
        yield number, _picked(row, columns) if isinstance(row, dict) else "not a JSON object"


def _json_row(line: bytes, columns: Sequence[str]) -> RawRow | str | MissingFieldError:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return NOT_UTF8
    except (ValueError, RecursionError):
        return "not valid JSON"
    if not isinstance(row, dict):
        return "not a JSON object"
    return _picked(row, columns)


def _csv(path: Path, columns: Sequence[str]) -> NumberedLines:
    reader = csv.DictReader(io.StringIO(_decoded(path), newline=""), strict=True)
    try:
        _require(path, columns, reader.fieldnames or ())
        start = reader.line_num + 1
        for row in reader:
            complete = None not in row and None not in row.values()
            yield start, _picked(row, columns) if complete else "has more or fewer cells than the header"
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path} is not a CSV file: line {reader.line_num}: {error}", fix="write it as JSONL"
        ) from error


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} is {NOT_UTF8}: line {line}", fix=to_utf8(path)) from error


def _parquet(path: Path, columns: Sequence[str]) -> NumberedLines:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            _require(path, columns, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=1_000, columns=list(dict.fromkeys(columns))):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"cannot read {path} as parquet: {reason}", fix="copy or download it again") from error


def _require(path: Path, columns: Sequence[str], present: Sequence[str]) -> None:
    if missing := [column for column in columns if column not in present]:
        raise DataError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(present) or 'none'}",
            fix=map_columns(present),
        )
    if len(set(present)) < len(present):
        raise DataError(f"{path} has a column twice: {', '.join(present)}", fix="rename one of them")


def _picked(row: RawRow, columns: Sequence[str]) -> RawRow | MissingFieldError:
    if missing := [column for column in columns if column not in row]:
        return MissingFieldError(missing, list(row))
    return {column: row[column] for column in columns}


def write_jsonl(path: Path, problems: Iterable[Problem]) -> None:
    """Write problems as they are read again: further columns stand under their own names."""
    with path.open("w", encoding="utf-8") as file:
        for problem in problems:
            fields = {name: value for name, value in asdict(problem).items() if name != "given"}
            file.write(json.dumps({**fields, **problem.meta}, ensure_ascii=False, default=str) + "\n")


READERS: dict[str, Callable[[Path, Sequence[str]], NumberedLines]] = {
    ".jsonl": _jsonl,
    ".json": _json,
    ".parquet": _parquet,
    ".csv": _csv,
}
IN_FOLDERS = READERS.keys() - {".json"}
"""Formats that are read from a folder: beside its data, a data set often has facts about it in JSON."""
