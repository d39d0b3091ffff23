"""Rows that Python code gave to `agon.train`, as a list of dicts or a data set, in files that a config can name."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agon.config import Config, Data
from agon.config.rules import SPLITS
from agon.data.local import FIELDS, guess_columns
from agon.errors import DataError
from agon.rundir.directory import ROWS

Rows = Iterable[Mapping[str, Any]]
KINDS = ("preset", "env", "path")
"""What names the source of a split."""


@contextmanager
def staged(rows: Mapping[str, Rows | int | None], judged: bool) -> Iterator[tuple[Path | None, list[str]]]:
    """Files with the rows of each split, and the overrides that name them; no folder if no split has rows.

    A number instead of rows is that many of the training rows. `judged` says that a function of the user decides what
    is right: rows then need no answer.
    """
    named = {split: some for split, some in rows.items() if some is not None}
    if not named:
        yield None, []
        return
    if isinstance(named.get("train", 0), int):
        given = next(iter(named))
        raise DataError(f"{given}={named[given]!r} without rows to take them from", fix="give train= rows")
    with tempfile.TemporaryDirectory(prefix="agon-rows-") as scratch:
        sources: dict[str, dict[str, Any]] = {}
        try:
            for split, some in named.items():
                if isinstance(some, int):
                    sources[split] = {**sources["train"], "take": some}
                else:
                    sources[split] = _write(Path(scratch, f"{split}.jsonl"), split, some, judged)
            yield Path(scratch), [f"data.{split}={json.dumps(source)}" for split, source in sources.items()]
        except DataError as error:  # who gave rows knows no file of them
            error.message = re.sub(rf"{re.escape(scratch)}/(\w+)\.jsonl", r"\1=", error.message)
            error.args = (error.message,)
            raise


def check_whole(data: Data, given: Sequence[str], overrides: Sequence[str]) -> None:
    """Refuse to fill the splits without rows from the config, unless an override names their source."""
    keys = {text.partition("=")[0].strip() for text in overrides}
    if ignored := [key for key in sorted(keys) for split in given if key.startswith(f"data.{split}.")]:
        raise DataError(f"{ignored[0]} has no effect on rows", fix="leave this override out; rows[:4] are fewer rows")
    kept = {}
    for split in SPLITS:
        asked = {"data", f"data.{split}", *(f"data.{split}.{kind}" for kind in KINDS)}
        if split not in given and keys.isdisjoint(asked):
            source = getattr(data, split)
            kept[split] = next(f"data.{split}.{kind}={name}" for kind in KINDS if (name := getattr(source, kind)))
    if kept:
        rest, words = " and ".join(kept), ", ".join(map(repr, kept.values()))
        raise DataError(
            f"the rows of {' and '.join(given)} would be mixed with {rest} of the config",
            fix=f"give rows for {rest} too; or keep those of a config file by overrides: {words}",
        )


def kept_in(run: Path, data: Data, folder: Path) -> Data:
    """The same data with the paths that its rows have once the run keeps them."""
    moved = {
        split: source.model_copy(update={"path": str(run.absolute() / ROWS / Path(source.path).name)})
        for split in SPLITS
        if (source := getattr(data, split)).path and Path(source.path).parent == folder
    }
    return data.model_copy(update=moved)


def changed_by(config: Config, overrides: list[str]) -> Config:
    """A config made in Python with these overrides, whose values are JSON."""
    values = config.model_dump(by_alias=True)
    for text in overrides:
        key, _, value = text.partition("=")
        *sections, last = key.split(".")
        section = values
        for name in sections:
            section = section[name]
        section[last] = json.loads(value)
    return Config.model_validate(values)


def _write(file: Path, split: str, rows: Rows, judged: bool) -> dict[str, Any]:
    """Write one split; return the source that names it, every further column being meta."""
    if isinstance(rows, str | os.PathLike):
        path = os.fspath(rows)
        raise DataError(
            f"{split}={path!r} is a path, not rows", fix=f"name it by an override: 'data.{split}={{path: {path}}}'"
        )
    columns: dict[str, str] = {}
    with file.open("w", encoding="utf-8") as out:
        for row in rows:
            columns = columns or _columns(row, split, judged)
            out.write(json.dumps(dict(row), ensure_ascii=False, default=str) + "\n")
    if not columns:
        raise DataError(f"{split} has no rows", fix=f"give {split}= a list of dicts or a data set")
    return {"path": str(file), "columns": columns}


def _columns(row: Mapping[str, Any], split: str, judged: bool) -> dict[str, str]:
    """Which column is which: by the names under which data sets publish them."""
    if not isinstance(row, Mapping):
        raise DataError(
            f"a row of {split} is a {type(row).__name__}", fix="give dicts, or a data set whose rows are dicts"
        )
    mapped = guess_columns(list(row))
    if judged and mapped.get("answer") == "...":
        mapped["answer"] = ""
    if "..." in mapped.values():
        raise DataError(
            f"rows of {split} have the columns {', '.join(map(str, row))}: no question with an answer or tests",
            fix="name them question (or prompt) and answer (or solution)",
        )
    return mapped | {name: name for name in row if name not in {*mapped.values(), *FIELDS}}
