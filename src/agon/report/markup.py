"""Sentences and tables of HTML pages."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from agon.formatting import UNKNOWN, escape_html


def prose(sentence: str) -> str:
    """A sentence of the program, which names commands and columns in backticks."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape_html(sentence))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; a column that is empty throughout is left out."""
    kept = [k for k in range(len(head)) if any(row[k] not in ("", UNKNOWN) for row in rows)]
    top = "".join(f"<th>{html.escape(head[k])}</th>" for k in kept)
    body = "".join("<tr>" + "".join(f"<td>{row[k]}</td>" for k in kept) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
