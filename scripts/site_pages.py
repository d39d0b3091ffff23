"""Pages of the site that are files outside docs/: mkdocs calls this (mkdocs.yml, `hooks`).

A link between such a file and a page of docs/ is written as it works in the repository, and rewritten here. Every page
is also in llms.txt, for programs that read the site: title, address and first sentence.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "configs/paper/README.md": "paper-configs.md",
    "examples/README.md": "examples.md",
}
"""Where a file of the repository is on the site."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
WHOLE_LINK = re.compile(r"\[([^]\n]*)\]\(([^)#\s:]+)\)")
SENTENCES: dict[str, str] = {}
"""The first sentence of each page, by its path."""


def on_files(files: Files, config: Any) -> Files:
    """Add the files to the site."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=with_links(without_files(text, source), source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of a page of docs/ to those files."""
    SENTENCES[page.file.src_uri] = first_sentence(markdown)
    if page.file.src_uri in PAGES.values():
        return markdown
    source = f"docs/{page.file.src_uri}"
    return with_links(without_files(markdown, source), source)


def on_post_build(config: Any) -> None:
    """Write llms.txt from the navigation."""
    lines = [f"# {config.site_name}\n", f"> {config.site_description}"]
    for section in config.nav:
        ((title, pages),) = section.items()
        lines.append(f"\n## {title}\n")
        lines += [f"- [{name}]({address(page)}): {SENTENCES.get(page, '')}" for name, page in flat(pages)]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def flat(pages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The titles and files of a part of the navigation."""
    entries = [entry for each in pages for entry in each.items()]
    return [one for title, page in entries for one in ([(title, page)] if isinstance(page, str) else flat(page))]


def address(page: str) -> str:
    """Where a page is, relative to the root of the site."""
    folder = re.sub(r"(^|/)(index|README)$", "", page.removesuffix(".md"))
    return f"{folder or '.'}/"


def first_sentence(markdown: str) -> str:
    """The first sentence of prose: no heading, comment, table, list, picture or code."""
    for part in re.split(r"\n\s*\n", re.sub(r"```.*?```|<!--.*?-->", "", markdown, flags=re.DOTALL)):
        plain = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", part).split())
        if plain and not plain.startswith(("#", "|", "-", "!", ">", "1.", "<")):
            return re.split(r"(?<=[.?!:]) (?=[A-Z`*])", plain)[0].rstrip(":")
    return ""


def without_files(markdown: str, source: str) -> str:
    """Links to files of the repository that are no pages, as their paths."""

    def path(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        return match[0] if site_place(target) or not (ROOT / target).exists() else f"`{target}`"

    return WHOLE_LINK.sub(path, markdown)


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
    on_site = path.startswith("docs/") and not path.startswith("docs/decisions/")
    return PAGES.get(path) or (path.removeprefix("docs/") if on_site else None)
