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
