"""Ctrl-C and SIGTERM: the first makes the run save and stop, the second stops it at once.

A step can take minutes, so the first signal cancels whatever is being sampled and ends an update between two
micro-batches: nothing has been learnt from the step yet, and the resumed run draws it again from the same seeds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from agon.errors import first_of

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME = 2.0
"""Seconds in which further signals count as the first: a scheduler and a launcher each send theirs."""


ANSWER = b"\nstopping: saving what is done; once more in a few seconds stops at once\n"


def _answer() -> None:
    """Answer a person at once; a handler may interrupt a print, so this is no print."""
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), ANSWER)


class Interrupted(Exception):
    """A signal came; the run saves and stops."""


class Interrupt:
    """Inside `with`, signals set `asked` and cancel what is being watched."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        """`then` is called in the signal handler, once."""
        self.then = then
        self.asked: float | None = None
        """When the first signal came, by the monotonic clock."""
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to no other
            self._before = {name: signal.signal(name, self._handle) for name in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def check(self) -> None:
        """Raise Interrupted if a signal came."""
        if self.asked is not None:
            raise Interrupted

    async def watching(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` until it is done or cancelled; then raise Interrupted."""
        self._task = task = asyncio.ensure_future(work)
        try:
            if self.asked is not None:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            raise Interrupted from None
        except ExceptionGroup as group:
            raise first_of(group) from group
        finally:
            self._task = None

    def cancel(self) -> None:
        """Cancel what is being watched."""
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.asked is None:
            self.asked = now
            _answer()
            self.then()
            self.cancel()
        elif now - self.asked > SAME:
            raise KeyboardInterrupt
