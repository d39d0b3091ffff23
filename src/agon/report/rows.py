"""Bouts to look at, in the columns of `bouts/`: from a run, its parquet files, or the records of an evaluation.

A trial of a cascade is a bout without rewards; a trial of one pass is a draft that nobody challenged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError, RunDirError
from agon.rundir import RunDir, read_bouts
from agon.types import BASE

Row = Mapping[str, Any]
BATCH = 512
FIX = "name a run that has bouts/, a parquet file in it, or a result such as runs/NAME/evals/held_out/cascade.json"


@dataclass(frozen=True, slots=True)
class Source:
    """What is shown: its name, a few facts about it, and its bouts in order."""

    name: str
    facts: tuple[str, ...]
    rows: Iterator[Row]
    rewarded: bool = True


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps to keep, both ends included."""

    first: int = 0
    last: int | None = None

    @classmethod
    def read(cls, text: str) -> Steps:
        """`40`, `0:99`, `100:` or `:99`."""
        head, mark, tail = text.partition(":")
        try:
            first = int(head) if head else 0
            return cls(first, (int(tail) if tail else None) if mark else first)
        except ValueError as error:
            fix = "write --steps 0:99, --steps 100: or --steps 40"
            raise InputError(f"--steps {text} cannot be read", fix=fix) from error

    def holds(self, step: int) -> bool:
        return step >= self.first and (self.last is None or step <= self.last)


def open_source(path: Path, steps: Steps | None = None) -> Source:
    """What stands at `path`: a run directory, a folder or file of bouts, or a result with its records."""
    steps = steps or Steps()
    if path.suffix in {".json", ".jsonl"}:
        return _evaluation(path)
    if not path.exists():
        raise RunDirError(f"there is no {path}", fix=FIX)
    facts = _facts(RunDir.open(path)) if (path / "config.yaml").is_file() else ()
    name = path.resolve().name if facts else f"{path.resolve().parent.name}/{path.name}"
    return Source(name, facts, _bouts(path, steps))


def _bouts(path: Path, steps: Steps) -> Iterator[Row]:
    for file in [path] if path.is_file() else _files(path):
        for batch in read_bouts(file).to_batches(max_chunksize=BATCH):
            yield from (row for row in batch.to_pylist() if steps.holds(row["step"]))


def _files(path: Path) -> list[Path]:
    from agon.rundir.bouts import files_in

    found = list(files_in(path / "bouts" if (path / "bouts").is_dir() else path).values())
    if not found:
        raise RunDirError(f"{path} has no bouts yet", fix=FIX)
    return found


def _facts(run: RunDir) -> tuple[str, ...]:
    config = run.config
    seed = (config.get("train") or {}).get("seed")
    named = (("", config.get("arm")), ("", (config.get("model") or {}).get("name")), ("seed ", seed))
    return tuple(f"{word}{value}" for word, value in named if value is not None)


def _evaluation(path: Path) -> Source:
    """The records of a result: those that it names, or a file of records itself."""
    rows = []
    for records in [path] if path.suffix == ".jsonl" else _records(path):
        try:
            lines = records.read_text(encoding="utf-8").split("\n")[:-1]
            rows += [_trial(json.loads(line)) for line in lines]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunDirError(f"{records} cannot be read: {type(error).__name__}: {error}", fix=FIX) from error
    return Source(f"{path.parent.name}/{path.stem}", ("evaluation",), iter(rows), rewarded=False)


def _records(result: Path) -> list[Path]:
    """A cascade names the records of its direction; the mean of A and B those of both."""
    try:
        named = json.loads(result.read_text(encoding="utf-8"))["records"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunDirError(f"{result} is not a result: {type(error).__name__}: {error}", fix=FIX) from error
    return [result.parent / Path(str(name)).name for name in (named if isinstance(named, list) else [named])]


def _trial(record: Mapping[str, Any]) -> dict[str, Any]:
    first, second = (record["draft"], record["final"]) if "draft" in record else (record["final"], None)
    row: dict[str, Any] = {
        "step": 0,
        "problem_id": record["problem"],
        "question": record["question"],
        "answer": record["answer"],
        "index": record["sample"],
        "drafter": first["policy"] or BASE,
        "challenger": (second["policy"] or BASE) if second else None,
        "peek": record.get("peek"),
        "peek_leak": record.get("leak"),
    }
    for side, turn in (("draft", first), ("challenge", second or {})):
        row |= {f"{side}_{name}": value for name, value in turn.items()}
    return row
