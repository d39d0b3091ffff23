"""Numbers, tables and escapes for terminals, Markdown and notebooks: the only copy.

A value that is not known is a dash. Text from files (names of bases, arms, paths) is shown and never obeyed.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

from agon.rundir.results import Interval, Measures, Share

UNKNOWN, MISSING = "-", "missing"
"""A value that is not known; a number that nobody has measured."""
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MARKUP = re.compile(r"[|<&`\\]|\](?=[(\[])")
NUMERIC = re.compile(rf"[-+–\d]|$|none|{MISSING}")


# -- numbers ----------------------------------------------------------------------------------------------------------


def count(value: float | None) -> str:
    """`1,234`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def kilo(value: float | None) -> str:
    """`812`, `3.4k`."""
    return count(value) if value is None or value < 1000 else f"{value / 1000:.1f}k"


def size(number: float) -> str:
    """Bytes: `0.53 GiB`, `12.0 MiB`, `1.4 KiB`."""
    if number >= 2**28:
        return f"{number / 2**30:,.2f} GiB"
    return f"{number / 2**20:,.1f} MiB" if number >= 2**17 else f"{number / 2**10:,.1f} KiB"


def rate(value: float | None) -> str:
    """`0.61`."""
    return UNKNOWN if value is None else f"{value:.2f}"


def significant(value: float | None, digits: int = 3) -> str:
    """`0.0123`, `1,235`, `2.1e+06`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def plural(number: int, noun: str) -> str:
    """`1 group`, `2 groups`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def percent(value: float | None, digits: int = 0) -> str:
    """`61%`."""
    return UNKNOWN if value is None else f"{100 * value:.{digits}f}%"


def interval(estimate: Interval | None, sign: str = "%") -> str:
    """`61.0% [55.2, 66.6]`."""
    if estimate is None:
        return UNKNOWN
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f}{sign}"
    return f"{100 * estimate.value:.1f}{sign} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def points(difference: Interval | None, unit: str = " points") -> str:
    """`+15.3 points [+9.7, +21.0]`."""
    if difference is None:
        return UNKNOWN
    value = f"{100 * difference.value:+z.1f}{unit}"
    if difference.low is None or difference.high is None:
        return value
    return f"{value} [{100 * difference.low:+z.1f}, {100 * difference.high:+z.1f}]"


def share(counted: Share | None) -> str:
    """`12% [5, 22] (6/50)`."""
    if counted is None:
        return UNKNOWN
    if counted.rate is None:
        return f"{UNKNOWN} (0 of {counted.of})"
    low, high = (UNKNOWN if limit is None else f"{100 * limit:.0f}" for limit in (counted.rate.low, counted.rate.high))
    return f"{percent(counted.rate.value)} [{low}, {high}] ({counted.count}/{counted.of})"


def not_graded(measures: Measures) -> str:
    """`12 of 300 problems could not be graded`; empty if all were."""
    missing = measures.ungraded_problems
    return f"{missing} of {plural(len(measures.outcomes), 'problem')} could not be graded" if missing else ""


def probability(p: float | None) -> str:
    """`0.031`, `2.1e-05`."""
    if p is None:
        return UNKNOWN
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}" if p > 0 else "< 1e-300"


def duration(seconds: float) -> str:
    """`42 s`, `7 min`, `1 h 42 min`, `3 d 4 h`."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


# -- tables -----------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal, the first aligned to the left and the others to the right."""
    lines = [[show_hidden(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(head))]
    aligned = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in lines
    ]
    return "\n".join(line.rstrip() for line in aligned)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same in Markdown; columns of numbers are aligned to the right."""
    cells = [[escape_markdown(str(value)) for value in row] for row in rows]
    ruler = ["---:" if k and all(NUMERIC.match(row[k]) for row in cells) else "---" for k in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[escape_markdown(word) for word in head], ruler, *cells])


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same for a notebook: text is escaped, and a cell keeps its lines."""
    left = 'style="text-align: left; vertical-align: top"'
    titles = "".join(f"<th {left}>{escape_html(word)}</th>" for word in head)
    body = "".join(f"<tr>{''.join(f'<td {left}>{html_lines(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def html_lines(text: str) -> str:
    """Text of several lines, escaped, for a notebook."""
    return "<br>".join(map(escape_html, text.split("\n")))


# -- text from files --------------------------------------------------------------------------------------------------


def show_hidden(text: str) -> str:
    """One line without a character that moves a cursor, turns the direction of text or cannot be seen."""
    return "".join(_spelled(letter) if unicodedata.category(letter) in HIDDEN else letter for letter in text)


def escape_html(value: object) -> str:
    """One line of HTML that reads as the text: hidden characters are shown, markup is escaped."""
    return html.escape(show_hidden(str(value)))


def escape_markdown(text: str) -> str:
    """One line of Markdown that reads as the text and makes no cell, no element, no link and no picture."""
    return MARKUP.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", show_hidden(" ".join(text.split())))


def _spelled(letter: str) -> str:
    return f"<U+{ord(letter):04X}>"
