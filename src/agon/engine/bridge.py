"""An event loop in a thread of its own: plain calls and awaits from any other loop reach what runs on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from agon.errors import EngineError

T = TypeVar("T")
Work = Coroutine[Any, Any, T]


async def _nothing() -> None: ...


class Bridge:
    """Runs coroutines on its loop; calls come from other threads."""

    def __init__(self, name: str) -> None:
        self._gate, self._waiting = threading.Lock(), list[tuple[Work[Any], Future[Any]]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Start a coroutine on the loop."""
        if self._loop.is_closed():
            work.close()
            raise _closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Work[T]) -> T:
        """Run a coroutine on the loop and wait for it."""
        return self.submit(work).result()

    def submit_batched(self, work: Work[T]) -> Future[T]:
        """Start a coroutine together with all that are submitted in the same turn of the caller's loop.

        A batch that trickles in over the threads costs an engine some steps: it begins with the first few rows.
        """
        future: Future[T] = Future()
        with self._gate:
            self._waiting.append((work, future))
            if len(self._waiting) == 1:
                asyncio.get_running_loop().call_soon(self._hand_over)
        return future

    def close(self, last: Callable[[], Work[None]] = _nothing) -> None:
        """Cancel what runs, wait for `last`, and end the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        try:
            self.call(self._end(last))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self, last: Callable[[], Work[None]]) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await last()
        await asyncio.gather(*others, return_exceptions=True)

    def _hand_over(self) -> None:
        with self._gate:
            waiting, self._waiting = self._waiting, []
        if self._loop.is_closed():
            for work, future in waiting:
                work.close()
                future.set_exception(_closed())
            return
        self._loop.call_soon_threadsafe(self._take, waiting)

    def _take(self, waiting: Sequence[tuple[Work[Any], Future[Any]]]) -> None:
        for work, future in waiting:
            chain(self._loop.create_task(work), future)


class Runner:
    """`asyncio.Runner` that also works in a thread that runs an event loop already, as a cell of a notebook does: work
    then runs on a loop in a thread of its own, and signals are still handled in this one."""

    def __enter__(self) -> Self:
        self._loop: asyncio.Runner | Bridge = Bridge("agon-run") if loop_is_running() else asyncio.Runner()
        return self

    def run(self, work: Work[T]) -> T:
        """Run a coroutine and wait for it."""
        return self._loop.call(work) if isinstance(self._loop, Bridge) else self._loop.run(work)

    def __exit__(self, *error: object) -> None:
        self._loop.close()


def loop_is_running() -> bool:
    """Whether the current thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def chain(task: asyncio.Task[T], future: Future[T]) -> None:
    """Let a future of another thread end as the task does, and the task be cancelled as the future is."""

    def task_ended(_: asyncio.Task[T]) -> None:
        if task.cancelled():
            future.cancel()
        if not future.set_running_or_notify_cancel():
            return
        if error := task.exception():
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def future_ended(_: Future[T]) -> None:
        if future.cancelled() and not task.done():
            task.get_loop().call_soon_threadsafe(task.cancel)

    task.add_done_callback(task_ended)
    future.add_done_callback(future_ended)


def _closed() -> EngineError:
    return EngineError("the sampler was closed", fix="start the run again")
