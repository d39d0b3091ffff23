"""The shell of every page: one HTML file that contains its style, script and data, and makes no request.

The content security policy allows the one script and the one style of a page, by their hashes, and nothing else: no
other script, image or connection. Data is gzipped JSON in base64, so that no text of a model can become markup, and
scripts write text nodes only.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import gzip
import hashlib
import html
import json
import math
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from agon_lens.errors import LensError, WriteError
from agon_lens.formatting import UNKNOWN, escape_html

TEXT_SCRIPTS = ("dom.js", "program.js", "tex.js", "text.js", "list.js", "controls.js", "frame.js")
"""What every page with texts of models is made of."""
SLOT = re.compile(r"\{\{([a-z-]+)\}\}")
PART = re.compile(r"<!-- ([a-z-]+) -->\n")
"""What fills a slot of the frame, in the file of a page."""
OURS = b'<meta name="generator" content="Agon">'
NO_FOLDER = "make that folder first, or name one that exists"
PLACE = {errno.ENOENT: NO_FOLDER, errno.ENOTDIR: NO_FOLDER} | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS), "choose a place that you may write to"
)
"""What to do about an error that is about the place, not about the disk."""
RUN_AGAIN = "make room or repair the disk, then run the same command again"


def asset(name: str, package: str = "agon_lens") -> str:
    """A file of a page, as it ships with a package."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def fill_page(parts: str, title: str, scripts: Sequence[str], style: str, index: str, blocks: Sequence[str]) -> str:
    """The page of a viewer: the frame of all viewers with the parts of one, its style, scripts and data."""
    body = "\n".join(scripts)
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    _, *named = PART.split(parts)
    data = [("index", index), *((f"block-{n}", block) for n, block in enumerate(blocks))]
    values = dict(zip(named[::2], map(str.strip, named[1::2]), strict=True)) | {
        "title": html.escape(title),
        "style": style,
        "style-hash": sha256_source(style),
        "script": script,
        "script-hash": sha256_source(script),
        "data": "\n".join(f'<script type="application/gzip" id="{name}">{text}</script>' for name, text in data),
    }
    return SLOT.sub(lambda match: values[match.group(1)], asset("page.html"))


def plain_page(
    title: str, name: str, body: str, note: str, *, links: Sequence[tuple[str, str]] = (), refresh: int = 0
) -> str:
    """A page without scripts: `body` is HTML, `note` a sentence at the foot, `links` are (file, words); with `refresh`
    it loads itself again after so many seconds."""
    style = asset("report.css")
    values = {
        "title": escape_html(title),
        "name": escape_html(name),
        "style": style,
        "style-hash": sha256_source(style),
        "refresh": f'<meta http-equiv="refresh" content="{refresh}">' if refresh else "",
        "body": body,
        "links": "".join(f'<a href="{html.escape(file)}">{escape_html(words)}</a>' for file, words in links),
        "note": prose(note),
    }
    return SLOT.sub(lambda match: values[match.group(1)], asset("report.html"))


def sha256_source(text: str) -> str:
    """A text as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def compress(value: Any) -> str:
    """JSON, gzipped, in base64; the same value gives the same text."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode("ascii")


def rounded(value: Any) -> Any:
    """A float in six significant digits, or None if it is not finite; anything else as it is."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def prose(sentence: str) -> str:
    """A sentence of the program as HTML; commands and columns in backticks become code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape_html(sentence))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """An HTML table of cells that are HTML already; a column that is empty throughout is left out."""
    kept = [k for k in range(len(head)) if any(row[k] not in ("", UNKNOWN) for row in rows)]
    top = "".join(f"<th>{html.escape(head[k])}</th>" for k in kept)
    body = "".join("<tr>" + "".join(f"<td>{row[k]}</td>" for k in kept) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="{name}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def write_page_file(out: Path, page: str) -> None:
    """Write a page atomically, where nothing is or an earlier page of ours."""
    try:
        if os.path.lexists(out) and not _is_our_page(out):
            raise LensError(f"{out} already exists, and is not a page that Agon wrote", fix="name a new file")
        _replace(out, page.encode("utf-8", "replace"))
    except OSError as error:
        fix = PLACE.get(error.errno or 0)
        message = f"{out} was not written: {error.strerror or error}"
        raise (LensError if fix else WriteError)(message, fix=fix or RUN_AGAIN) from error


def _is_our_page(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return OURS in file.read(1000)


def _replace(path: Path, data: bytes) -> None:
    """Replace the content of a file atomically."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)
        raise
