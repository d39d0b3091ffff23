"""The HTTP front of `agon serve`: what a client can make a server hold, and how long.

    head    64 KiB within 10 s; a connection without a request is closed after as long
    body    JSON of a bounded size, within some seconds; bodies that arrive at once are bounded in number and in bytes
    Host    without a key, this machine's own names only: a page in a browser cannot reach us under a name of its own
    key     `Authorization: Bearer KEY`, once

uvicorn has no deadline for a head. With httptools it has no limit on its size either, and takes trailers for headers;
with h11 it accepts a Content-Length beside Transfer-Encoding, and a body that turns invalid after the answer gives a
traceback. So the limits of heads are ours, over httptools.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 10.0
LOCAL = ("127.0.0.1", "::1", "localhost")
"""Addresses on which a server needs no key."""
OUR_NAMES = re.compile(rb"(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?", re.IGNORECASE)
KEY_LENGTH, KEY_VARIETY = 16, 6
"""Characters, and different ones, of a key that strangers may try to guess."""


def server_config(app: ASGIApp, host: str, port: int, **more: Any) -> uvicorn.Config:
    """How uvicorn runs a server of ours: bounded heads, no websockets, no access log."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=BoundedHead,
        ws="none",
        access_log=False,
        server_header=False,
        timeout_keep_alive=5,
        **more,
    )


def weak(key: str) -> bool:
    """Whether a key is too short, or too uniform, for a server that strangers can reach."""
    return len(key) < KEY_LENGTH or len(set(key)) < KEY_VARIETY


def headers(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def bearer_key(scope: Scope) -> bytes | None:
    """The key of a request; None without one, with another scheme, or with two."""
    given = headers(scope, b"authorization")
    if len(given) != 1 or not given[0].lower().startswith(b"bearer "):
        return None
    return given[0][7:].strip()


def asked_by_our_name(scope: Scope) -> bool:
    """Whether the Host header names this machine."""
    given = headers(scope, b"host")
    return len(given) == 1 and OUR_NAMES.fullmatch(given[0]) is not None


class Unacceptable(Exception):
    """Why a body is not taken."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(eq=False, slots=True)
class _Arrival:
    """A body on its way, or in use."""

    deadline: asyncio.Timeout
    body: bytearray = field(default_factory=bytearray)
    given_up: bool = False


class Bodies:
    """Reads the bodies of requests: at most `most` arrive at once, and all that are held have at most `total` bytes.

    Beyond that, the body that has been arriving longest is given up, so that slow clients cannot keep others out.
    """

    def __init__(self, *, largest: int, seconds: float, most: int, total: int) -> None:
        self._largest, self._seconds, self._most, self._total = largest, seconds, most, total
        self._arriving: dict[_Arrival, None] = {}
        self._held = 0

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[bytearray]:
        """A whole body, held until the end of the block; Unacceptable if we do not take it."""
        kinds = [kind.split(b";")[0].strip().lower() for kind in headers(scope, b"content-type")]
        if kinds != [b"application/json"]:
            raise Unacceptable(415, "unsupported_media_type", "send Content-Type: application/json")
        length = headers(scope, b"content-length")
        if length and (not length[0].isdigit() or int(length[0]) > self._largest):
            raise self._too_large()
        arrival = _Arrival(asyncio.timeout(self._seconds))
        try:
            await self._receive(arrival, receive)
            yield arrival.body
        finally:
            self._release(arrival)

    async def _receive(self, arrival: _Arrival, receive: Receive) -> None:
        self._arriving[arrival] = None
        more = True
        try:
            async with arrival.deadline:
                self._make_room()
                while more and not arrival.given_up:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Unacceptable(400, "disconnected", "the client left")
                    piece, more = message.get("body", b""), message.get("more_body", False)
                    arrival.body += piece
                    self._held += len(piece)
                    if len(arrival.body) > self._largest:
                        raise self._too_large()
                    self._make_room()
        except TimeoutError:
            if not arrival.given_up:
                raise Unacceptable(408, "body_timeout", "the body did not arrive in time") from None
        finally:
            self._arriving.pop(arrival, None)
        if arrival.given_up:
            raise Unacceptable(429, "overloaded", "too many bodies are arriving")

    def _make_room(self) -> None:
        while self._arriving and (len(self._arriving) > self._most or self._held > self._total):
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            self._release(oldest)
            oldest.given_up = True
            if not oldest.deadline.expired():
                oldest.deadline.reschedule(0)

    def _release(self, arrival: _Arrival) -> None:
        self._held -= len(arrival.body)
        arrival.body.clear()

    def _too_large(self) -> Unacceptable:
        return Unacceptable(413, "body_too_large", f"the body is larger than {self._largest} bytes")


class BoundedHead(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too long or do not arrive in time."""

    _in_head = True
    _head = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head += len(data) * self._in_head
        if self._head > HEAD_BYTES and self._in_head and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are not headers: nobody sends a key after the body
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._expect_request()
        super().on_response_complete()

    def _expect_request(self) -> None:
        """Wait for the next request; the rest of a body that was refused extends the time no more than silence does."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
