"""The lines of logs: parquet, JSONL, CSV, tables as W&B stores them, archives of inspect, and folders of these.

A log may be larger than the memory. `LogLines` reads its files again for every pass and holds one line at a time; a
small log is kept after the first pass.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agon_lens.errors import LensError
from agon_lens.formats import Format, format_of

LogLine = Mapping[str, Any]
"""A line of a log as it was written: a value by column."""
Progress = Callable[[int, int], None]
"""Called while files are read, with the bytes that were read and those that there are."""

AGON = {"problem_id", "rival", "draft_reward_correctness", "challenge_reward_correctness"}
"""Columns by which a line is one of Agon's own bouts."""
RESULT, RESULT_BOUT = {"system", "settings", "records"}, {"problem_id", "draft_text"}
"""Keys of a result of `agon eval`, and of a line of the bouts beside it."""
JSON_FILES = {".jsonl", ".json", ".ndjson"}
LOG_FILES = ("*.parquet", "*.jsonl", "*.eval")
NESTED = ("traces.jsonl", "results.jsonl", "samples_*.jsonl", "*.table.json")
"""Logs that their writers put into folders of their own: verifiers, lm-eval, W&B."""
JSONL = "write one JSON object per line"
NAMES = re.compile(r"[-+]?0\d|.*_")
"""Cells that `int` and `float` would read and nobody means as numbers: 007, 1_23."""
LONG = ("_text", "_detail", "_prompt", "peek", "question")
ANSWERED = ("draft_text", "challenge_text")
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
DAMAGED = "copy the file again if it is damaged, or name a different .parquet or .jsonl file"
FIX = "name a parquet, JSONL, CSV or .eval file, a folder of them, or a run directory"
KEPT_BYTES = 64_000_000
"""Logs up to this size are kept in memory between passes."""
REPORT_EVERY = 20_000_000
"""Bytes after which progress is reported."""
STEPS = ("step", "global_step", "iteration")
LARGEST = 1e100
"""Numbers beyond this are not rewards and not steps: squared, they overflow."""


@dataclass
class Survey:
    """What the columns of a log hold: their names in order, and which of them hold numbers alone."""

    names: list[str]
    numeric: set[str]
    floats: set[str]
    """Those that hold a float: no column of truth values or whole numbers."""
    nested: dict[str, Any]
    """A value of each column that holds lists or dicts."""
    spread: set[str]
    """Columns of dicts of numbers, one column per number: {"reward": {"format": 1}} is `reward.format`."""
    rows: int
    steps: tuple[float, float] | None
    format: Format | None
    """What wrote the log, if its lines had to be turned into rows."""


@dataclass
class LogLines:
    """The lines of files and folders, in order, as often as they are asked for; `notes` says what was skipped."""

    paths: Sequence[Path]
    progress: Progress | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = [file for path in self.paths for file in log_files(path)]
        self.sizes = [file.stat().st_size for file in self.files]  # of a log that is growing every pass reads the same
        self.bytes = sum(self.sizes)
        self._kept: list[LogLine] | None = None
        self.survey = self._survey()

    def __iter__(self) -> Iterator[LogLine]:
        lines = self._kept if self._kept is not None else self._read([])
        if not self.survey.spread:
            return iter(lines)
        return (_spread_line(line, self.survey.spread) for line in lines)

    def _read(self, notes: list[str]) -> Iterator[LogLine]:
        done = reported = 0
        for file, size in zip(self.files, self.sizes, strict=True):
            before = done
            for line, at in _lines(file, notes, size):
                done = before + min(at, size)
                if self.progress and done - reported >= REPORT_EVERY:
                    reported = done
                    self.progress(done, self.bytes)
                known = format_of(line)
                if known is None:
                    yield line
                else:
                    yield from known.rows(line, file.stem)
            done = before + size
        if self.progress and reported:
            self.progress(self.bytes, self.bytes)

    def _survey(self) -> Survey:
        """Read everything once, and say what the columns hold."""
        names, odd, seen, floats = dict[str, None](), set[str](), set[str](), set[str]()
        nested, dicts, parts = dict[str, Any](), dict[str, bool](), dict[str, dict[str, None]]()
        steps, kept, rows = list[float](), list[LogLine](), 0
        for line in self._read(self.notes):
            rows += 1
            if self.bytes <= KEPT_BYTES:
                kept.append(line)
            if (step := step_of(line)) is not None:
                steps = [min(step, steps[0]), max(step, steps[1])] if steps else [step, step]
            for name, value in line.items():
                names[name] = None
                if isinstance(value, int | float):
                    seen.add(name)
                    if isinstance(value, float):
                        floats.add(name)
                elif value is not None:
                    odd.add(name)
                    dicts[name] = dicts.get(name, True) and isinstance(value, dict) and _is_numbers(value)
                    if dicts[name]:
                        parts.setdefault(name, {}).update(dict.fromkeys(key for key in value if value[key] is not None))
                    if isinstance(value, list | dict):
                        nested.setdefault(name, value)
        if not rows:
            problem = ": ".join([f"{self.paths[0]} holds no rows", *self.notes[:1]])
            raise LensError(problem, fix="log at least one step, or name a different file")
        self._kept = kept if self.bytes <= KEPT_BYTES else None
        spread = {name for name, good in dicts.items() if good and name not in seen}
        added = [f"{name}.{key}" for name in names if name in spread for key in parts.get(name, ())]
        return Survey(
            names=[name for name in names if name not in spread] + added,
            numeric=(seen - odd) | set(added),
            floats=floats - odd,
            nested={name: value for name, value in nested.items() if name not in spread},
            spread=spread,
            rows=rows,
            steps=(steps[0], steps[1]) if steps else None,
            format=next((known for line in self._first_lines() if (known := format_of(line))), None),
        )

    def _first_lines(self) -> Iterator[LogLine]:
        """The first line of each file, as it was written."""
        for file, size in zip(self.files, self.sizes, strict=True):
            if (first := next(_lines(file, [], size), None)) is not None:
                yield first[0]


def step_of(line: LogLine) -> float | None:
    """The step of a line; None where the log has none."""
    value = next((line[name] for name in STEPS if name in line), None)
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:  # TRL's tables hold steps as text
        value = int(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < LARGEST else None


def _is_numbers(value: Mapping[str, Any]) -> bool:
    return all(part is None or isinstance(part, int | float) for part in value.values())


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
    problem = "holds no .parquet, .jsonl or .eval file" if path.exists() else "does not exist"
    raise LensError(f"{path} {problem}", fix=FIX)


def _found(path: Path) -> list[Path]:
    """Files of a log in the first folder that has some; then those that writers put deeper."""
    for folder in (path / "bouts", path / "completions", path):
        if files := sorted([file for name in LOG_FILES for file in folder.glob(name)], key=_by_number):
            return files
    return sorted(file for name in NESTED for file in path.rglob(name)) if path.is_dir() else []


def is_foreign(path: Path) -> bool:
    """Whether a path is the log of a trainer other than Agon."""
    if path.is_dir():
        return bool(_found(path)) and not is_agons(path)
    named = path.suffix == ".parquet" or (path.suffix in {*JSON_FILES, ".eval", ".csv"} and path.is_file())
    return named and not is_agons(path)


def is_agons(path: Path) -> bool:
    """Whether a path is a run of Agon, its bouts, or a result of `agon eval`: `agon view` shows these bout by bout."""
    if path.is_dir():
        run = all((path / name).is_file() for name in ("config.yaml", "manifest.json"))
        return run or (bool(files := _found(path)) and is_agons(files[0]))
    if path.suffix == ".parquet":
        return _schema(path) >= AGON
    if path.suffix in JSON_FILES and path.is_file():
        first = (json_object(path) if path.suffix == ".json" else None) or _first_line(path) or {}
        return first.keys() >= RESULT or first.keys() >= RESULT_BOUT
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


def _lines(path: Path, notes: list[str], size: int) -> Iterator[tuple[LogLine, int]]:
    """The lines of one file, each with the place up to which it was read; what is skipped is added to the notes. JSONL
    is read up to a size."""
    if path.suffix in JSON_FILES:
        for line, at in _json_lines(path, notes, size):
            yield (_with_echo(line) if line.keys() >= AGON else line), at
    elif path.suffix == ".eval":
        yield from _archive(path)
    elif path.suffix == ".csv":
        yield from _csv(path)
    elif path.suffix == ".parquet":
        yield from _parquet(path)
    else:
        raise LensError(f"{path} is not a log: neither parquet nor JSONL", fix=FIX)


def _parquet(path: Path) -> Iterator[tuple[LogLine, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            ours = set(names) >= AGON
            wanted = [name for name in names if not ours or not name.endswith(LONG) or name in ANSWERED]
            each = path.stat().st_size / max(1, file.metadata.num_rows)
            done = 0
            for batch in file.iter_batches(batch_size=512, columns=wanted):
                for line in batch.to_pylist():
                    done += 1
                    yield (_with_echo(line) if ours else line), int(done * each)
    except (pa.ArrowException, OSError) as error:
        raise LensError(f"cannot read {path} as parquet: {error}", fix=DAMAGED) from error


def _csv(path: Path) -> Iterator[tuple[LogLine, int]]:
    import csv

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                if None in row or None in row.values():
                    fix = "quote values that contain commas"
                    raise LensError(f"{path}: row {number} does not have as many values as the header", fix=fix)
                yield {name: _csv_value(text) for name, text in row.items()}, 0
    except UnicodeDecodeError as error:
        fix = f"convert it: iconv -f latin1 -t utf-8 {path} > NEW_FILE"
        raise LensError(f"{path} is not valid UTF-8", fix=fix) from error
    except csv.Error as error:
        raise LensError(f"cannot read {path} as CSV: {error}", fix="write one row per line, with a header") from error


def _csv_value(text: str) -> Any:
    """A cell as a number or a truth value where it is one; an empty one is missing."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    if NAMES.match(word):
        return text
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        return text if math.isinf(value) and "e" in word else value  # 1e999 is a name; inf is a number
    return text or None


def _archive(path: Path) -> Iterator[tuple[LogLine, int]]:
    """The samples of an archive of inspect."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for info in archive.infolist():
                if info.filename.startswith("samples/") and info.filename.endswith(".json"):
                    yield _json_line(_member(archive, file, info), f"{path}:{info.filename}"), info.header_offset
    except (zipfile.BadZipFile, OSError) as error:
        raise LensError(f"cannot read {path} as an archive of inspect: {error}", fix=DAMAGED) from error


def _member(archive: zipfile.ZipFile, file: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """One file of an archive; inspect compresses with zstd, which Python's own reader learnt in 3.14."""
    if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return archive.read(info)
    import pyarrow as pa

    file.seek(info.header_offset + 26)  # the local header ends with the lengths of a name and of an extra field
    name, extra = struct.unpack("<HH", file.read(4))
    file.seek(name + extra, 1)
    packed = pa.BufferReader(file.read(info.compress_size))
    data: bytes = pa.CompressedInputStream(packed, "zstd").read()
    return data


def _with_echo(line: LogLine) -> LogLine:
    """One of Agon's bouts with `echo` (draft and challenge give the same answer) in place of its two texts."""
    draft, challenge = (ANSWER.findall(line.get(name) or "") for name in ANSWERED)
    same = bool(draft and challenge) and draft[-1].split() == challenge[-1].split()
    return {name: value for name, value in line.items() if name not in ANSWERED} | {"echo": same}


def _json_lines(path: Path, notes: list[str], size: int) -> Iterable[tuple[LogLine, int]]:
    if path.suffix == ".json" and (_first_line(path) is None or _is_one_line(path)):
        whole = _whole(path)
        if isinstance(whole, dict):
            return ((line, 0) for line in _table(path, whole))
        if isinstance(whole, list) and whole and all(isinstance(row, dict) for row in whole):
            return ((row, 0) for row in whole)
    return _each_line(path, notes, size)


def _is_one_line(path: Path) -> bool:
    """Whether a file is one line, and so one object."""
    with path.open("rb") as file:
        file.readline()
        return not file.readline().strip()


def json_object(path: Path) -> LogLine | None:
    """The one object that a file is; None for one of many lines."""
    value = _whole(path)
    return value if isinstance(value, dict) else None


def _whole(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def _table(path: Path, whole: LogLine) -> Iterable[LogLine]:
    """The rows of one object: a table as W&B stores it (names of columns, and rows of values), or a log of inspect."""
    if "log_history" in whole:
        fix = "train with log_completions=True, then name OUTPUT_DIR/completions"
        raise LensError(f"{path} holds means over batches, and no group can be seen in them", fix=fix)
    if isinstance(samples := whole.get("samples"), list) and "eval" in whole:
        return [sample for sample in samples if isinstance(sample, dict)]
    names, rows = whole.get("columns"), whole.get("data")
    if not isinstance(names, list) or not isinstance(rows, list):
        return [whole]
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise LensError(f"{path} is not a table: its rows do not fit its columns", fix=JSONL)
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def _each_line(path: Path, notes: list[str], size: int) -> Iterable[tuple[LogLine, int]]:
    with path.open("rb") as file:  # as bytes: a line separator of Unicode inside a text does not end the line
        at = 0
        for number, whole in enumerate(file, start=1):
            if not (text := whole[: max(0, size - at)]):
                break
            at += len(text)
            if not text.endswith(b"\n") and not _is_json(text):  # only the last line has no end
                notes.append(f"skipped the last line of {path.name}, line {number}: it is incomplete")
            elif text.strip():
                yield _json_line(text, f"{path}:{number}"), at


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
        fix = f"convert it: iconv -f latin1 -t utf-8 {place.rpartition(':')[0]} > NEW_FILE"
        raise LensError(f"{place} is not valid UTF-8", fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise LensError(f"{place} is not JSON: {error}", fix=JSONL) from error
    if not isinstance(line, dict):
        raise LensError(f"{place} is not a JSON object", fix=JSONL)
    return line
