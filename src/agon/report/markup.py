"""Tables of HTML pages."""

from __future__ import annotations

import html
from collections.abc import Sequence

from agon.formatting import UNKNOWN


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; a column that is empty throughout is left out."""
    kept = [k for k in range(len(head)) if any(row[k] not in ("", UNKNOWN) for row in rows)]
    top = "".join(f"<th>{html.escape(head[k])}</th>" for k in kept)
    body = "".join("<tr>" + "".join(f"<td>{row[k]}</td>" for k in kept) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
