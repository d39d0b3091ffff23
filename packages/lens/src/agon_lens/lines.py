"""The rows of a log from its files, or from memory.

`LogLines` reads its files anew for every pass and holds one row at a time; a small log is kept after the first pass.
Whatever is wrong with a row is one sentence with its file and line, and `Place` is what says it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon_lens.errors import LensError, Place
from agon_lens.files import lines_of, log_files
from agon_lens.formats import AGON, Format, LogLine, format_of

Source = Any
"""A log: a path, a list of paths, a list of dicts, or a table of pandas, polars, pyarrow or datasets."""
Progress = Callable[[int, int], None]
"""Called while files are read, with the bytes that were read and those that there are."""
KEPT_BYTES = 8_000_000
"""Logs up to this size are kept in memory between passes."""
REPORT_EVERY = 20_000_000
"""Bytes after which progress is reported."""
STEPS = ("step", "global_step", "iteration")
LARGEST = 1e100
"""Numbers beyond this are not rewards and not steps: squared, they overflow."""
IN_MEMORY = "give a path, a list of paths, a list of dicts with one row each, or a DataFrame"


@dataclass
class Survey:
    """What the columns of a log hold; a column without a value is none."""

    rows: int = 0
    types: dict[str, set[type]] = field(default_factory=lambda: defaultdict(set))
    """The types of the values of every column, in the order of the log."""
    nested: dict[str, Any] = field(default_factory=dict)
    """A value of each column that holds lists or dicts."""
    steps: tuple[float, float] | None = None
    """The first and the last."""
    format: Format | None = None
    """What wrote the log, if its lines had to be turned into rows."""

    def add(self, line: LogLine) -> None:
        self.rows += 1
        for name, value in line.items():
            if value is not None:
                self.types[name].add(type(value))
                if isinstance(value, list | dict):
                    self.nested.setdefault(name, value)
        if (step := step_of(line)) is not None:
            low, high = self.steps or (step, step)
            self.steps = (min(step, low), max(step, high))

    @property
    def names(self) -> list[str]:
        return list(self.types)

    @property
    def numeric(self) -> set[str]:
        """Columns of numbers alone."""
        return {name for name, types in self.types.items() if types <= {int, float, bool}}

    @property
    def floats(self) -> set[str]:
        """Those that hold a float: no column of truth values or whole numbers."""
        return {name for name in self.numeric if float in self.types[name]}


class LogLines:
    """The rows of a log in order, as often as they are asked for; `notes` says what was skipped."""

    def __init__(self, source: Source, progress: Progress | None = None) -> None:
        self.progress, self.notes = progress, list[str]()
        self._kept = _in_memory(source)
        self.paths = []
        if self._kept is None:
            self.paths = [Path(source)] if isinstance(source, str | Path) else list(map(Path, source))
        self.name = "rows" if not self.paths else self.paths[0].name
        if len(self.paths) > 1:
            self.name += f" and {len(self.paths) - 1} more"
        self.files = [file for path in self.paths for file in log_files(path)]
        self.sizes = [file.stat().st_size for file in self.files]  # of a log that is growing every pass reads the same
        self.bytes = sum(self.sizes)
        self.survey = Survey()
        kept = list[tuple[Place, LogLine]]()
        for place, line in self._kept if self._kept is not None else self._read(self.notes):
            self.survey.add(line)
            if self.bytes <= KEPT_BYTES:
                kept.append((place, line))
        if not kept and not self.survey.rows:
            problem = ": ".join([f"{self.paths[0] if self.paths else 'the log'} holds no rows", *self.notes[:1]])
            raise LensError(problem, fix="log at least one step, or name a different file")
        self._kept = kept or None

    @property
    def are_bouts(self) -> bool:
        """Whether Agon wrote them."""
        return {*self.survey.types} >= AGON

    def __iter__(self) -> Iterator[LogLine]:
        return (line for _, line in self.placed())

    def placed(self) -> Iterator[tuple[Place, LogLine]]:
        """Every row with its place."""
        return iter(self._kept) if self._kept is not None else self._read([])

    def _read(self, notes: list[str]) -> Iterator[tuple[Place, LogLine]]:
        done = reported = 0
        for file, size in zip(self.files, self.sizes, strict=True):
            before = done
            for number, line, at in lines_of(file, notes, size):
                done = before + min(at, size)
                if self.progress and done - reported >= REPORT_EVERY:
                    reported = done
                    self.progress(done, self.bytes)
                known = format_of(line)
                with (place := Place(file, number, known.name if known else "")):
                    rows = list(known.rows(line, file.stem)) if known else [line]
                for row in rows:
                    yield place, _spread(row)
                self.survey.format = self.survey.format or known
            done = before + size
        if self.progress and reported:
            self.progress(self.bytes, self.bytes)


def step_of(line: LogLine) -> float | None:
    """The step of a row; None where it has none."""
    value = next((line[name] for name in STEPS if name in line), None)
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:  # TRL's tables hold steps as text
        value = int(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < LARGEST else None


def _spread(line: LogLine) -> LogLine:
    """A row in which a dict of numbers is a column for each: {"reward": {"format": 1}} is `reward.format`."""
    dicts = [name for name, value in line.items() if isinstance(value, dict) and all(map(_is_number, value.values()))]
    if not dicts:
        return line
    parts = {f"{name}.{key}": part for name in dicts for key, part in line[name].items()}
    return {name: value for name, value in line.items() if name not in dicts} | parts


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _in_memory(source: Source) -> list[tuple[Place, LogLine]] | None:
    """The rows of a table or list; None for paths."""
    if isinstance(source, str | Path):
        return None
    if hasattr(source, "notna"):  # pandas
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    for method in ("to_dicts", "to_pylist"):  # polars, pyarrow
        source = getattr(source, method)() if hasattr(source, method) else source
    try:
        given = list(source)
    except TypeError as error:
        raise LensError(f"{type(source).__name__} is not a log", fix=IN_MEMORY) from error
    if given and all(isinstance(each, str | Path) for each in given) and not isinstance(source, Mapping):
        return None
    if odd := [each for each in given if not isinstance(each, Mapping)]:
        raise LensError(f"a row of a log is a dict, not {type(odd[0]).__name__}", fix=IN_MEMORY)
    return list(in_memory(_spread({str(name): _plain(value) for name, value in row.items()}) for row in given))


def in_memory(rows: Iterable[LogLine]) -> Iterator[tuple[Place, LogLine]]:
    """Rows of ours with their places."""
    return ((Place(None, number), row) for number, row in enumerate(rows, start=1))


def _plain(value: Any) -> Any:
    """A number or array of numpy or torch as Python has it."""
    return value.tolist() if hasattr(value, "tolist") else value
