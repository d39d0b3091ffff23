"""Files of logs: which they are in a folder, and their lines as they were written.

Parquet, JSONL, CSV, tables as W&B stores them, archives of inspect.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from agon_lens.errors import LensError, Place
from agon_lens.formats import AGON, LogLine

RESULT, RESULT_BOUT = {"system", "settings", "records"}, {"problem_id", "draft_text"}
"""Keys of a result of `agon eval`, and of a line of the bouts beside it."""
JSON_FILES = {".jsonl", ".json", ".ndjson"}
LOG_FILES = ("*.parquet", "*.jsonl", "*.eval")
NESTED = ("traces.jsonl", "results.jsonl", "samples_*.jsonl", "*.table.json")
"""Logs that their writers put into folders of their own: verifiers, lm-eval, W&B."""
SAMPLE_BYTES = 256_000_000
"""An archive's sample that unpacks to more is refused."""

JSONL = "write one JSON object per line"
DAMAGED = "copy the file again if it is damaged, or name a different .parquet or .jsonl file"
FIX = "name a parquet, JSONL, CSV or .eval file, a folder of them, or a run directory"
LATIN1 = "convert it: iconv -f latin1 -t utf-8 {} > NEW_FILE"


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


def _by_number(path: Path) -> tuple[int, str]:
    """verl names its files by the step alone: 10.jsonl comes after 9.jsonl."""
    return (int(path.stem) if path.stem.isdecimal() else -1, path.name)


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
        whole = _json(path.read_bytes()) if path.suffix == ".json" else None
        with path.open("rb") as file:
            first = whole or _json(file.readline())
        return isinstance(first, dict) and (first.keys() >= RESULT or first.keys() >= RESULT_BOUT)
    return False


def _schema(path: Path) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return set()


# -- files -------------------------------------------------------------------------------------------------------------

Read = Iterator[tuple[int | str, LogLine, int]]
"""Lines of a file as they were written: the number of each, and the place up to which the file was read."""


def lines_of(path: Path, notes: list[str], size: int) -> Read:
    """The lines of one file; what is skipped is added to the notes. JSONL is read up to a size."""
    if path.suffix in {*JSON_FILES, ".csv"}:
        _check_encoding(path)
    if path.suffix in JSON_FILES:
        return _json_lines(path, notes, size)
    if path.suffix == ".eval":
        return _archive(path)
    if path.suffix in {".csv", ".parquet"}:
        return _table_file(path)
    if path.suffix == ".gz":
        raise _gzipped(path)
    raise LensError(f"{path} is not a log: neither parquet nor JSONL", fix=FIX)


def _check_encoding(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(4)
    if head.startswith(b"\x1f\x8b"):
        raise _gzipped(path)
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if marked or head[:1] == b"\0" or head[1:2] == b"\0":
        name = "utf-16" if marked else "utf-16be" if head[:1] == b"\0" else "utf-16le"
        raise LensError(f"{path} is not UTF-8", fix=f"convert it: iconv -f {name} -t utf-8 {path} > NEW_FILE")


def _gzipped(path: Path) -> LensError:
    return LensError(f"{path} is compressed", fix=f"unpack it: gunzip < {path} > NEW_FILE.jsonl")


def _table_file(path: Path) -> Read:
    """The rows of a parquet or CSV file."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    size, number = path.stat().st_size, 0
    try:
        if path.suffix == ".csv":  # in one block: the type of a column is seen in all of its cells
            read = pc.ReadOptions(block_size=size + 1, use_threads=False)
            cells, lines = pc.ConvertOptions(strings_can_be_null=True), pc.ParseOptions(newlines_in_values=True)
            table = pc.read_csv(path, read_options=read, parse_options=lines, convert_options=cells)
            if any(map(pa.types.is_binary, table.schema.types)):
                raise LensError(f"{path} is not UTF-8", fix=LATIN1.format(path))
            rows, batches = table.num_rows, table.to_batches(512)
        else:
            file = pq.ParquetFile(path)
            rows, batches = file.metadata.num_rows, file.iter_batches(batch_size=512)
        for batch in batches:
            for line in batch.to_pylist():
                number += 1
                yield number, line, number * size // rows
    except (pa.ArrowException, OSError) as error:
        raise LensError(f"cannot read {path} as {path.suffix[1:]}: {error}", fix=DAMAGED) from error


def _archive(path: Path) -> Read:
    """The samples of an archive of inspect."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for info in archive.infolist():
                if info.filename.startswith("samples/") and info.filename.endswith(".json"):
                    with Place(path, info.filename):
                        line = _parsed(_member(archive, file, info), path)
                    yield info.filename, line, info.header_offset
    except (zipfile.BadZipFile, OSError) as error:
        raise LensError(f"cannot read {path} as an archive of inspect: {error}", fix=DAMAGED) from error


def _member(archive: zipfile.ZipFile, file: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """One file of an archive; inspect compresses with zstd, which Python's own reader learnt in 3.14."""
    if info.file_size > SAMPLE_BYTES:
        size, most = (each / 1e6 for each in (info.file_size, SAMPLE_BYTES))
        raise LensError(f"unpacks to {size:,.0f} MB; a sample may have {most:,.0f}", fix="leave that sample out")
    if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return archive.read(info)
    import pyarrow as pa

    file.seek(info.header_offset + 26)  # the local header ends with the lengths of a name and of an extra field
    name, extra = struct.unpack("<HH", file.read(4))
    file.seek(name + extra, 1)
    packed = pa.BufferReader(file.read(info.compress_size))
    data: bytes = pa.CompressedInputStream(packed, "zstd").read(info.file_size)
    return data


def _json_lines(path: Path, notes: list[str], size: int) -> Read:
    """One object per line; a .json file may also be one object or one list."""
    whole = _json(path.read_bytes()) if path.suffix == ".json" else None
    rows = _table(path, whole) if isinstance(whole, dict) else whole
    if isinstance(rows, list):
        for number, row in enumerate(rows, start=1):
            with Place(path, number):
                line = _object(row)
            yield number, line, 0
        return
    with path.open("rb") as file:  # as bytes: a line separator of Unicode inside a text does not end the line
        at = 0
        for number, whole in enumerate(file, start=1):
            if not (text := whole[: max(0, size - at)]):
                break
            at += len(text)
            if not text.strip():
                continue
            if not text.endswith(b"\n") and _json(text) is None:  # only the last line has no end
                notes.append(f"skipped the last line of {path.name}, line {number}: it is incomplete")
                continue
            with Place(path, number):
                line = _parsed(text, path)
            yield number, line, at


def _table(path: Path, whole: LogLine) -> list[Any]:
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


def _parsed(text: bytes, path: Path) -> LogLine:
    try:
        return _object(json.loads(text))
    except UnicodeDecodeError as error:
        raise LensError("not UTF-8", fix=LATIN1.format(path)) from error
    except (ValueError, RecursionError) as error:
        raise LensError(f"not JSON: {getattr(error, 'msg', error)}", fix=JSONL) from error


def _object(value: Any) -> LogLine:
    if not isinstance(value, dict):
        raise LensError("not a JSON object", fix=JSONL)
    return value


def _json(text: bytes) -> Any:
    """The value of a text; None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
