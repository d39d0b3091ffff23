"""The match viewer: one HTML file that contains its style, script and bouts, and makes no request.

`agon_lens.page` is the shell that it shares with the viewer of logs: policy, style, formulas, list and filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agon.report.payload import Packed, pack
from agon.report.rows import BoutSource
from agon_lens.page import TEXT_SCRIPTS, asset, fill_page, write_page_file

PACKAGE = "agon.report"
"""Where the parts of the page are that show bouts."""


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


def render(source: BoutSource, packed: Packed | None = None) -> str:
    """The page as HTML."""
    packed = packed or pack(source)
    parts, style = asset("match.html", PACKAGE), asset("page.css")
    return fill_page(parts, f"{source.name} · Agon", scripts(), style, packed.index, packed.blocks)


def scripts() -> list[str]:
    """The scripts of the page, in order."""
    return [*map(asset, TEXT_SCRIPTS), *(asset(name, PACKAGE) for name in ("store.js", "bout.js", "main.js"))]
