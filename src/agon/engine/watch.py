"""Text of a completion while it is drawn, for whoever watches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agon.engine.render import Renderer
from agon.types import Request

INTERVAL = 0.05
"""Seconds between two looks: all ids so far are decoded for each."""


def watched(request: Request, renderer: Renderer) -> Callable[[Sequence[int]], None] | None:
    """Turn ids so far into text so far for the watcher of a request; None if nobody watches."""
    watch, shown = request.watch, 0.0
    if watch is None:
        return None

    def look(ids: Sequence[int]) -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown >= INTERVAL:
            shown = now
            watch(renderer.text(ids).rstrip("\ufffd"))  # half of a character

    return look


class IncrementalText:
    """Ids to text, one id at a time and in linear time. All that is returned adds up to the text of all ids, with the
    family's own reasoning markers."""

    def __init__(self, renderer: Renderer) -> None:
        from tokenizers.decoders import DecodeStream

        self._renderer, self._stream = renderer, DecodeStream(skip_special_tokens=False)
        self._ids: list[int] = []
        self._length = 0

    def add(self, token: int) -> str:
        """The text that this id completes; an id that ends a turn has none."""
        if token in self._renderer.stop:
            return ""
        self._ids.append(token)
        text = self._stream.step(self._renderer.tokenizer.backend_tokenizer, token) or ""
        self._length += len(text)
        return text

    def end(self) -> str:
        """What the last ids left unfinished, such as half of a character."""
        return self._renderer.decode(self._ids)[self._length :]
