"""What a client can make a server hold, and for how long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("httptools", reason="the servers need the extra `serve` or `sandbox`")

import uvicorn

from agon.deploy.serve import http_front
from agon.deploy.serve.http_front import Bodies, Unacceptable, asked_by_our_name, bearer_key, server_config, weak

JSON = [(b"content-type", b"application/json")]
SMALL = {"largest": 100, "seconds": 20.0, "most": 2, "total": 150}


class Client:
    """A body that arrives in the pieces that a test sends."""

    def __init__(self, bodies: Bodies) -> None:
        self._pieces: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(self._read(bodies))

    async def _read(self, bodies: Bodies) -> bytes | int:
        """The body, or the status of its refusal."""
        try:
            async with bodies.read({"headers": JSON}, self._pieces.get) as body:
                return bytes(body)
        except Unacceptable as error:
            return error.status

    async def send(self, data: bytes, *, more: bool = True) -> None:
        await self._pieces.put({"type": "http.request", "body": data, "more_body": more})
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_the_body_that_has_arrived_longest_gives_way() -> None:
    async def scenario() -> list[bytes | int]:
        bodies = Bodies(**SMALL)
        slow, second, third = [Client(bodies) for _ in range(3)]
        for client in (slow, second, third):
            await client.send(b"x")
        await second.send(b"y", more=False)
        await third.send(b"y", more=False)
        return [await client.task for client in (slow, second, third)]

    assert asyncio.run(scenario()) == [429, b"xy", b"xy"]


def test_all_bodies_together_are_bounded_in_bytes() -> None:
    async def scenario() -> list[bytes | int]:
        bodies = Bodies(**SMALL)
        first, second = Client(bodies), Client(bodies)
        await first.send(b"x" * 80)
        await second.send(b"y" * 80)
        await first.send(b"", more=False)
        await second.send(b"", more=False)
        return [await first.task, await second.task]

    assert asyncio.run(scenario()) == [429, b"y" * 80]


def test_a_body_in_use_counts_and_is_not_given_up() -> None:
    async def scenario() -> None:
        bodies, client = Bodies(**SMALL), None

        async def pieces() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x" * 90}

        async with bodies.read({"headers": JSON}, pieces) as body:
            client = Client(bodies)
            await client.send(b"y" * 90, more=False)
            assert await client.task == 429
            assert body == b"x" * 90
        again = Client(bodies)
        await again.send(b"y" * 90, more=False)
        assert await again.task == b"y" * 90

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "pieces", "status"),
    [
        ([], [b"{}"], 415),
        ([(b"content-type", b"text/plain")], [b"{}"], 415),
        ([*JSON, *JSON], [b"{}"], 415),
        ([*JSON, (b"content-length", b"101")], [], 413),
        ([*JSON, (b"content-length", b"+1")], [], 413),
        (JSON, [b"x" * 60, b"x" * 60], 413),
        (JSON, [b"x"], 408),
        (JSON, [None], 400),
    ],
)
def test_what_is_no_body_of_ours_is_refused(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes | None], status: int
) -> None:
    async def scenario() -> None:
        waiting = iter(pieces)

        async def receive() -> dict[str, Any]:
            try:
                piece = next(waiting)
            except StopIteration:
                return await asyncio.Future[dict[str, Any]]()
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": True}

        with pytest.raises(Unacceptable) as refused:
            async with Bodies(**{**SMALL, "seconds": 0.2}).read({"headers": headers}, receive):
                pass
        assert refused.value.status == status

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ([b"Bearer k"], b"k"),
        ([b"bearer  k "], b"k"),
        ([b"k"], None),
        ([b"Basic k"], None),
        ([b"Bearer"], None),
        ([], None),
        ([b"Bearer k", b"Bearer k"], None),
    ],
)
def test_a_key_has_the_scheme_bearer_and_comes_once(given: list[bytes], key: bytes | None) -> None:
    assert bearer_key({"headers": [(b"authorization", value) for value in given]}) == key


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        (b"127.0.0.1:8000", True),
        (b"localhost", True),
        (b"LocalHost:1", True),
        (b"[::1]:8000", True),
        (b"evil.example:8000", False),
        (b"127.0.0.1.evil.example", False),
        (b"localhost:8000.evil.example", False),
        (b"", False),
        (None, False),
    ],
)
def test_only_names_of_this_machine_are_ours(host: bytes | None, ours: bool) -> None:
    assert asked_by_our_name({"headers": [] if host is None else [(b"host", host)]}) is ours


def test_a_key_that_can_be_guessed_is_weak() -> None:
    assert weak("x")
    assert weak("a" * 40)
    assert not weak("5f3a9c1e77b04d21")


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[list[tuple[bytes, bytes]]]]]:
    """The port of a server that refuses every body unread, and the headers that it got."""
    seen: list[list[tuple[bytes, bytes]]] = []

    async def app(scope: Any, receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        if scope["path"] == "/read":
            while (await receive()).get("more_body"):
                continue
        seen.append(scope["headers"])
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(server_config(app, "127.0.0.1", 0, lifespan="off", log_config=None))
        task = asyncio.create_task(server._serve([listener]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1], seen
        finally:
            server.should_exit = True
            await task


async def answer(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """All that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.create_task(reader.read())
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(pause)
            if reading.done():
                break
        return await asyncio.wait_for(reading, 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


HEAD = b"POST /read HTTP/1.1\r\nHost: x\r\n"


def test_heads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_front, "HEAD_SECONDS", 1.0)

    async def scenario() -> None:
        async with listening() as (port, seen):
            assert b" 400 " in await answer(port, HEAD + b"X: " + b"a" * 100_000)
            assert await answer(port, HEAD + b"X: a") == b""
            assert await answer(port, HEAD, *[b"X: a\r\n"] * 100, pause=0.1) == b""
            assert await answer(port, b"") == b""
            assert not seen

    asyncio.run(scenario())


def test_a_body_that_was_refused_does_not_keep_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_front, "HEAD_SECONDS", 1.0)

    async def scenario() -> bytes:
        async with listening() as (port, _):
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
            return await asyncio.wait_for(answer(port, head, *[b"x"] * 200, pause=0.1), 15)

    assert b" 401 " in asyncio.run(scenario())


def test_trailers_are_not_headers() -> None:
    async def scenario() -> list[list[tuple[bytes, bytes]]]:
        async with listening() as (port, seen):
            chunked = HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n"
            await answer(port, chunked + b"Authorization: Bearer k\r\n\r\n")
            return seen

    [headers] = asyncio.run(scenario())
    assert (b"transfer-encoding", b"chunked") in headers
    assert not [name for name, _ in headers if name == b"authorization"]


def test_a_message_with_two_lengths_is_refused() -> None:
    async def scenario() -> None:
        async with listening() as (port, seen):
            both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            assert b" 400 " in await answer(port, HEAD + both)
            assert not seen

    asyncio.run(scenario())


def test_a_body_that_turns_invalid_after_the_answer_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> bytes:
        async with listening() as (port, _):
            head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            return await answer(port, head, b"zz\r\n", pause=0.3)

    assert b" 401 " in asyncio.run(scenario())
    assert not [record for record in caplog.records if record.exc_info]
