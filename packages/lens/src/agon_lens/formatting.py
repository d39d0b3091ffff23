"""Numbers, tables and escapes for terminals and pages.

A value that is not known is a dash. Text from a log is shown and never obeyed.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence

UNKNOWN = "-"
"""A value that is not known."""
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that move a cursor, reverse text or cannot be seen."""


def significant(value: float | None, digits: int = 3) -> str:
    """`0.0123`, `1,235`, `2.1e+06`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def plural(number: int, noun: str) -> str:
    """`1 group`, `2 groups`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal, the first aligned to the left and the others to the right."""
    lines = [[show_hidden(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(head))]
    aligned = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in lines
    ]
    return "\n".join(line.rstrip() for line in aligned)


def show_hidden(text: str) -> str:
    """One line in which hidden characters are spelled out: `<U+001B>`."""
    return "".join(f"<U+{ord(letter):04X}>" if unicodedata.category(letter) in HIDDEN else letter for letter in text)


def escape_html(value: object) -> str:
    """One line of HTML that reads as the text: hidden characters are shown, markup is escaped."""
    return html.escape(show_hidden(str(value)))


def utf8(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
