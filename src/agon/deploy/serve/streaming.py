"""An answer on its way to a client: the work is a task of its own, which is cancelled when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agon.deploy.serve.refusals import Refused

BUFFER = 32
"""Events that may wait for a slow client; then the servers wait too."""
PING = b": ping\n\n"

Put = Callable[[bytes], Awaitable[None]]


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


@asynccontextmanager
async def leaving(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when the client leaves."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            continue

    task = asyncio.create_task(watch())
    try:
        yield task
    finally:
        task.cancel()


async def unless_left(work: Awaitable[None], receive: Receive) -> None:
    """Wait for work; cancel it and raise ClientLeft when the client leaves first."""
    task = asyncio.ensure_future(work)
    try:
        async with leaving(receive) as gone:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientLeft
        task.result()
    finally:
        await cancelled(task)


async def cancelled(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait until it has cleaned up."""
    task.cancel()
    await asyncio.wait({task})


class EventBuffer:
    """Events between the task that writes them and the client that reads them."""

    def __init__(self, write: Callable[[Put], Awaitable[None]]) -> None:
        self._events: list[bytes] = []
        self._changed, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()
        self.task = asyncio.ensure_future(write(self._put))
        self.task.add_done_callback(lambda _: self._changed.set())

    async def next(self, gone: asyncio.Task[None], ping: float | None) -> bytes | None:
        """All events that are ready, joined; a comment after a while without any; None at the end of the work.

        Raises what the work raised, and ClientLeft.
        """
        try:
            async with asyncio.timeout(ping):
                while not (self._events or self.task.done() or gone.done()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return PING
        if gone.done():
            raise ClientLeft
        if not self._events:
            self.task.result()
            return None
        events, self._events = b"".join(self._events), []
        self._room.set()
        return events

    @asynccontextmanager
    async def leaving(self, receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
        """A task that ends when the client leaves; its end is noticed at once."""
        async with leaving(receive) as gone:
            gone.add_done_callback(lambda _: self._changed.set())
            yield gone

    async def _put(self, event: bytes) -> None:
        await self._room.wait()
        self._events.append(event)
        self._changed.set()
        if len(self._events) >= BUFFER:
            self._room.clear()


class EventStream(Response):
    """Server-sent events. Nothing follows an error event: only `[DONE]` ends a whole answer."""

    media_type = "text/event-stream"

    def __init__(self, buffer: EventBuffer, first: bytes, *, ping: float, write_seconds: float) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._buffer, self._first, self._ping, self._seconds = buffer, first, ping, write_seconds

    @classmethod
    async def open(
        cls, write: Callable[[Put], Awaitable[None]], receive: Receive, *, ping: float, write_seconds: float
    ) -> EventStream:
        """Begin the work and wait for its first event: what fails before it gets a status of its own."""
        buffer = EventBuffer(write)
        try:
            async with buffer.leaving(receive) as gone:
                first = await buffer.next(gone, None)
        except BaseException:
            await cancelled(buffer.task)
            raise
        return cls(buffer, first or b"", ping=ping, write_seconds=write_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with self._buffer.leaving(receive) as gone:
                await self._send_all(scope, send, gone)
            await self._send(send, b"", more=False)
        except ClientLeft:
            scope.setdefault("agon", {})["left"] = True
        finally:
            await cancelled(self._buffer.task)

    async def _send_all(self, scope: Scope, send: Send, gone: asyncio.Task[None]) -> None:
        events: bytes | None = self._first
        try:
            while events is not None:
                await self._send(send, events)
                events = await self._buffer.next(gone, self._ping)
        except Refused as refusal:
            scope.setdefault("agon", {})["failed"] = refusal.status
            await self._send(send, b"data: " + refusal.json + b"\n\n")

    async def _send(self, send: Send, events: bytes, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await send({"type": "http.response.body", "body": events, "more_body": more})
        except (TimeoutError, OSError) as error:
            raise ClientLeft from error
