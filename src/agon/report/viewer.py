"""The match viewer: one HTML file that contains its style, script and bouts, and makes no request.

The content security policy allows the one script and the one style of the page, by their hashes, and nothing else: no
other script, image or connection. The script writes text nodes only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from agon.report.payload import Packed, pack
from agon.report.rows import BoutSource
from agon.rundir.files import atomic_replace, output_errors_as, write_new

SCRIPTS = ("dom.js", "program.js", "tex.js", "store.js", "list.js", "bout.js", "main.js")
SLOT = re.compile(r"\{\{([a-z-]+)\}\}")


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page on disk, and the bout that it opens on, if there is a conversion worth looking at."""

    path: Path
    best: int | None


def write_viewer(source: BoutSource, out: Path) -> WrittenPage:
    """Write the page of a source to `out` atomically."""
    packed = pack(source)
    page = render(source, packed).encode("utf-8")
    with output_errors_as(f"{out} was not written"), atomic_replace(out) as temporary:
        write_new(temporary, page)
    return WrittenPage(out, packed.best)


def render(source: BoutSource, packed: Packed | None = None) -> str:
    """The page as HTML."""
    packed = packed or pack(source)
    script, style = asset_script(), asset("page.css")
    data = [("index", packed.index), *((f"block-{n}", block) for n, block in enumerate(packed.blocks))]
    values = {
        "title": html.escape(f"{source.name} · Agon"),
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


def asset_script() -> str:
    """The page's one script."""
    body = "\n".join(asset(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def sha256_source(text: str) -> str:
    """A text as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
