"""The match viewer: one HTML file that contains its style, script and bouts, and makes no request.

The content security policy allows the one script and the one style of the page, by their hashes, and nothing else: no
other script, image or connection. The script writes text nodes only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from agon.errors import InputError
from agon.report.payload import Packed, pack
from agon.report.rows import BoutSource
from agon.rundir.files import output_errors_as, write

TEXT_SCRIPTS = ("dom.js", "program.js", "tex.js", "text.js", "list.js", "controls.js", "frame.js")
"""What every page with texts of models is made of."""
SCRIPTS = (*TEXT_SCRIPTS, "store.js", "bout.js", "main.js")
SLOT = re.compile(r"\{\{([a-z-]+)\}\}")
OURS = b'<meta name="generator" content="Agon">'
PART = re.compile(r"<!-- ([a-z-]+) -->\n")
"""What fills a slot of the frame, in the file of a page."""


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page on disk, and the bout that it opens on, if there is a conversion worth looking at."""

    path: Path
    best: int | None


def write_viewer(source: BoutSource, out: Path) -> WrittenPage:
    """Write the page of a source to `out` atomically."""
    packed = pack(source)
    write_page_file(out, render(source, packed))
    return WrittenPage(out, packed.best)


def write_page_file(out: Path, page: str) -> None:
    """Write a page atomically, where nothing is or an earlier page of ours."""
    with output_errors_as(f"{out} was not written"):
        if os.path.lexists(out) and not _is_our_page(out):
            raise InputError(f"{out} already exists, and is not a page that Agon wrote", fix="name a new file")
        write(out, page.encode("utf-8", "replace"))


def _is_our_page(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return OURS in file.read(1000)


def render(source: BoutSource, packed: Packed | None = None) -> str:
    """The page as HTML."""
    packed = packed or pack(source)
    return fill_page("match.html", source.name, SCRIPTS, asset("page.css"), packed.index, packed.blocks)


def fill_page(parts: str, name: str, scripts: Sequence[str], style: str, index: str, blocks: Sequence[str]) -> str:
    """The frame of all pages with the parts of one, its one style, its one script and its data."""
    script = one_script(scripts)
    _, *named = PART.split(asset(parts))
    data = [("index", index), *((f"block-{n}", block) for n, block in enumerate(blocks))]
    values = dict(zip(named[::2], map(str.strip, named[1::2]), strict=True)) | {
        "title": html.escape(f"{name} · Agon"),
        "style": style,
        "style-hash": sha256_source(style),
        "script": script,
        "script-hash": sha256_source(script),
        "data": "\n".join(f'<script type="application/gzip" id="{name}">{text}</script>' for name, text in data),
    }
    return SLOT.sub(lambda match: values[match.group(1)], asset("page.html"))


def asset(name: str) -> str:
    """A file of the page, as it ships."""
    return (resources.files("agon.report") / "assets" / name).read_text(encoding="utf-8")


def one_script(names: Sequence[str]) -> str:
    """Files as the one script of a page."""
    body = "\n".join(map(asset, names))
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def sha256_source(text: str) -> str:
    """A text as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
