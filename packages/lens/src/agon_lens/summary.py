"""A diagnosis as the text that a terminal shows: head, table of terms, dead groups, findings with what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agon_lens.findings import MEANING, percent
from agon_lens.formatting import plural, show_hidden, significant, table
from agon_lens.terms import Term
from agon_lens.trends import MANY_STEPS, thirds

if TYPE_CHECKING:
    from agon_lens.diagnosis import Diagnosis

COLUMNS = {
    "term": "A part of the reward: one column of the log.",
    "kind": "What a term does to the advantages: group-constant, action-independent, rescaling, echo or signal.",
    "varies": "Share of groups in which the term takes more than one value.",
    "share": "Share of the advantages, which are what is learnt from. The shares of all terms add up to 1; a negative "
    "one works against the others.",
    "change": "Mean change of a normalised advantage, in absolute value, when this term alone is dropped.",
    "flips": "Share of rows whose advantage changes sign when this term alone is dropped.",
    "mean": "The mean of the term in the whole log.",
    "min": "The least value of the term in the log.",
    "max": "The greatest value of the term in the log.",
}
"""The table of terms: what each column means."""
TREND = {
    "early": "The mean of the term in the first third of the steps.",
    "late": "The mean of the term in the last third of the steps.",
}
"""Its columns in a log with many steps."""


def summary(diagnosis: Diagnosis) -> list[str]:
    """The lines of the screen."""
    lines = [f"{diagnosis.name}: {facts(diagnosis)}", *(f"  {note}" for note in diagnosis.notes)]
    if diagnosis.group_sizes[1] > 1:
        lines += ["", *(f"  {line}" for line in table(*term_table(diagnosis)).splitlines())]
        if diagnosis.dead:
            lines += ["", "  dead groups"]
            lines += [f"  {count:>6}  {cause.value:<10}  {MEANING[cause]}" for cause, count in diagnosis.dead.items()]
    lines += ["", *([] if diagnosis.findings else ["  Nothing looks wrong."])]
    for number, finding in enumerate(diagnosis.findings, start=1):
        lines.append(f"{number:>3}. {finding.sentence}")
        if finding.fix:
            lines.append(f"     {'Change first: ' if finding is diagnosis.change_first else ''}{finding.fix}")
    return [show_hidden(line) for line in lines]


def facts(diagnosis: Diagnosis) -> str:
    """How many groups of how many rows, and how they were normalised."""
    low, high = diagnosis.group_sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    norm = "group mean and standard deviation" if diagnosis.scale == "group" else "group mean only"
    ungraded = f", {diagnosis.ungraded_rows} ungraded" if diagnosis.ungraded_rows else ""
    counts = f"{plural(diagnosis.groups, 'group')} of {size}, {plural(diagnosis.rows, 'row')}{ungraded}"
    return f"{counts}; normalised by {norm}"


def term_table(diagnosis: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of terms."""
    rows = [_cells(term) for term in diagnosis.terms]
    if len(diagnosis.trend) < MANY_STEPS:
        return [*COLUMNS], rows
    ends = [thirds([each.means[number] for each in diagnosis.trend]) for number in range(len(rows))]
    return [*COLUMNS, *TREND], [[*cells, *map(significant, both)] for cells, both in zip(rows, ends, strict=True)]


def _cells(term: Term) -> list[str]:
    numbers = (significant(round(value, 6)) for value in (term.share, term.change))  # no rounding errors
    levels = map(significant, (term.mean, term.min, term.max))
    return [term.name, term.kind, percent(term.varies), *numbers, percent(term.flips), *levels]
