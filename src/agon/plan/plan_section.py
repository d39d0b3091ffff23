"""What a plan is made of: titled tables, and the numbers of problems that they count with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Cell = int | float | str | None


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table. With one column, a row is a label and its value."""

    title: str
    rows: dict[str, tuple[Cell, ...]]
    columns: tuple[str, ...] = ("",)

    def as_dict(self) -> dict[str, Any]:
        if len(self.columns) == 1:
            return {label: cells[0] for label, cells in self.rows.items()}
        return {label: dict(zip(self.columns, cells, strict=True)) for label, cells in self.rows.items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """Problems in each split; None where a remote source is taken whole, so that its size is not known yet."""

    train: int | None
    dev: int | None
    held_out: int | None
