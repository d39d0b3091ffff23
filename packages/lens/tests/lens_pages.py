"""What stands in an HTML page."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in {"script", "style"} and data.strip():
            self.texts.append((self.found[-1][1].get("id") or self.found[-1][0], data))


def unpack(page: str, name: str) -> Any:
    """The data of a page: its index, or a block of texts."""
    text = dict(Elements(page).texts)[name]
    return json.loads(gzip.decompress(base64.b64decode(text)))
