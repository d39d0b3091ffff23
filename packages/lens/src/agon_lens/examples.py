"""Groups of a log that show what was found, with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from agon_lens.columns import Columns, recognise
from agon_lens.findings import Finding
from agon_lens.formatting import significant, utf8
from agon_lens.groups import GroupLog
from agon_lens.lines import LogLines
from agon_lens.logs import GroupTexts, Paths, as_paths, read_texts

LONGEST = 600
"""Characters of a text that an example shows."""
ROWS = 8


@dataclass(frozen=True, slots=True)
class Example:
    """One group as it is shown beside a finding: the numbers of each row, and the beginning of its texts."""

    step: float | None
    prompt: str
    head: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]


def read_examples(
    paths: Paths | LogLines, columns: Columns | None, log: GroupLog, found: Sequence[Finding]
) -> dict[int, Example]:
    """The first group of every finding that names some, by its number."""
    wanted = sorted({finding.groups[0] for finding in found if finding.groups})
    lines = paths if isinstance(paths, LogLines) else LogLines(as_paths(paths))
    texts = read_texts(lines, log, wanted, recognise(lines.survey, columns or Columns()))
    return {number: _example(log, number, each) for number, each in zip(wanted, texts, strict=True)}


def _example(log: GroupLog, number: int, texts: GroupTexts) -> Example:
    rows = list(islice(log.groups[number], ROWS))
    said = [
        each if isinstance(each, str) else "\n\n".join(f"[{role}]\n{text}" for role, text in each)
        for each in texts.completions[:ROWS]
    ]
    return Example(
        step=log.steps[number] if log.steps else None,
        prompt=_beginning(texts.prompt),
        head=("total", "advantage", *log.terms, "truncated"),
        cells=tuple(
            (*map(significant, (row.total, row.advantage, *row.terms)), "yes" if row.truncated else "") for row in rows
        ),
        texts=tuple(map(_beginning, said)),
    )


def _beginning(text: str) -> str:
    known = utf8(text).strip()
    return known if len(known) <= LONGEST else f"{known[:LONGEST]} ..."
