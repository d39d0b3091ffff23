"""Pages of the site that are files outside docs/: mkdocs calls this (mkdocs.yml, `hooks`).

A link between such a file and a page of docs/ is written as it works in the repository, and rewritten here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "LAB.md": "lab.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "configs/paper/README.md": "paper-configs.md",
    "tests/stumbles/README.md": "stumbles.md",
}
"""Where a file of the repository is on the site."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files to the site."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=with_links(text, source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of a page of docs/ to those files."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return with_links(markdown, f"docs/{page.file.src_uri}")


def with_links(markdown: str, source: str) -> str:
    """The text of a file with its links as they are on the site."""
    here = posixpath.dirname(site_place(source) or "")

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        place = site_place(target)
        if re.match(r"[a-z]+:", match[1]) or place is None:
            return match[0]
        return f"]({posixpath.relpath(place, here or '.')}{match[2] or ''})"

    return LINK.sub(moved, markdown)


def site_place(path: str) -> str | None:
    """The place of a file of the repository on the site; None for one that is not there."""
    return PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
