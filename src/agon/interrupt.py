"""Ctrl-C and SIGTERM: the first makes the run save and stop, the second stops it at once.

A step can take minutes, so the first signal cancels whatever is being sampled: nothing has been learnt from it yet,
and the resumed run draws it again from the same seeds. An update that has begun is finished first.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from agon.errors import first_of

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """Sampling was cancelled by a signal; the run saves and stops."""


class Interrupt:
    """Inside `with`, signals set `asked` and cancel what is being watched."""

    def __init__(self) -> None:
        self.asked = False
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to no other
            self._before = {name: signal.signal(name, self._handle) for name in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    async def watching(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` until it is done or a signal comes; then raise Interrupted."""
        self._task = task = asyncio.ensure_future(work)
        try:
            if self.asked:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            raise Interrupted from None
        except ExceptionGroup as group:
            raise first_of(group) from group
        finally:
            self._task = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
