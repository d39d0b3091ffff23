"""The HTTP client against servers that refuse, redirect, stall, break off and send too much."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from agon.engine import http_client as http
from agon.engine.http_client import HTTPClient, Reply, pause
from agon.engine.protocol import EngineDown
from agon.errors import EngineError
from agon.urls import host_of
from tests.engine.helpers.servers import server
from tests.waiting import until


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "pause", lambda *_: 0.0)


@contextmanager
def raw_server(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A server that does what it likes with a connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                with suppress(OSError):
                    answer(connection, connection.recv(1 << 16))

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def send(
    url: str, body: Any = None, tries: int = 0, read: Callable[[Reply], Reply] = lambda reply: reply, **options: Any
) -> Reply:
    """One exchange on a client of its own; with `tries`, through the retries."""

    async def exchange() -> Reply:
        client = HTTPClient(url, **options)
        try:
            if tries:
                return await client.send_with_retries("/x", body, read, tries=tries)
            return await client.send("/x", body)
        finally:
            await client.close()

    return asyncio.run(exchange())


def test_a_body_is_posted_and_a_request_without_one_is_a_get() -> None:
    seen: list[Any] = []
    with server(lambda path, body: (seen.append((path, body)), (200, {"a": 1}))[1]) as url:
        assert send(url, {"n": 2}).text == '{"a": 1}'
        assert send(url).ok
    assert seen == [("/v1/x", {"n": 2}), ("/v1/x", None)]


def test_a_status_is_part_of_the_reply_and_not_an_error() -> None:
    with server(lambda path, body: (418, {"error": "tea"})) as url:
        reply = send(url)
    assert (reply.ok, reply.status, reply.text) == (False, 418, '{"error": "tea"}')


def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def redirect(connection: socket.socket, head: bytes) -> None:
        connection.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: " + target.encode() + b"/v1/x\r\nContent-Length: 0\r\n\r\n"
        )

    with server(lambda path, body: (asked.append(path), (200, {}))[1]) as target, raw_server(redirect) as url:
        assert (send(url).status, send(url).ok) == (302, False)
    assert asked == []


def test_the_key_of_the_environment_is_sent_without_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []

    def reply(connection: socket.socket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with raw_server(reply) as url:
        for key in ("secret\n", ""):
            monkeypatch.setenv(http.KEY, key)
            assert send(url).ok
    assert b"Authorization: Bearer secret\r\n" in heads[0]
    assert b"authorization" not in heads[1].lower()


@pytest.mark.parametrize("proxies", [False, True])
def test_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch, proxies: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with server(lambda path, body: (200, {})) as url:
        assert send(url, proxies=proxies).ok


def test_another_machine_is_asked_through_the_proxy_of_the_environment_only_if_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    with server(lambda path, body: (asked.append(path), (200, {}))[1]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.removesuffix("/v1"))
        assert send("http://machine.invalid", proxies=True).ok
        with pytest.raises(EngineDown, match=r"machine\.invalid/x does not answer"):
            send("http://machine.invalid", proxies=False)
    assert asked == ["http://machine.invalid/x"]


def test_a_server_that_trickles_is_given_up_at_the_deadline() -> None:
    """Every byte comes in time, the whole does not."""

    def trickle(connection: socket.socket, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b" ")
            time.sleep(0.02)

    began = time.monotonic()
    with raw_server(trickle) as url, pytest.raises(EngineDown, match=r"within 0\.3 s"):
        send(url, limit=0.3)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", b"no such thing\r\n\r\n"]
)
def test_a_reply_that_is_not_whole_is_no_reply(start: bytes) -> None:
    with (
        raw_server(lambda connection, head: connection.sendall(start)) as url,
        pytest.raises(EngineDown, match="answer"),
    ):
        send(url)


def test_nobody_there_is_no_reply() -> None:
    with pytest.raises(EngineDown, match="ConnectError"):
        send("http://127.0.0.1:9")


@pytest.mark.parametrize("length", [b"Content-Length: 999999", b"X: y"], ids=["announced", "unannounced"])
def test_a_reply_that_is_too_large_is_an_error_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(http, "LARGEST", 1000)
    asked = 0

    def flood(connection: socket.socket, head: bytes) -> None:
        nonlocal asked
        asked += 1
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + b" " * 999999)

    with raw_server(flood) as url, pytest.raises(EngineError, match="sent more than"):
        send(url, tries=5)
    assert asked == 1


def test_temporary_failures_are_tried_again() -> None:
    codes = iter([503, 429, 500])
    with server(lambda path, body: (next(codes, 200), {"a": 1})) as url:
        assert send(url, tries=4).text == '{"a": 1}'


@pytest.mark.parametrize(("status", "expected"), [(400, 1), (401, 1), (503, 3)])
def test_the_last_refusal_is_returned(status: int, expected: int) -> None:
    asked: list[str] = []
    with server(lambda path, body: (asked.append(path), (status, {}))[1]) as url:
        assert send(url, tries=3).status == status
    assert len(asked) == expected


def test_a_reply_that_cannot_be_read_is_asked_for_again() -> None:
    answers = [b"no json", b"half", b"whole"]

    def read(reply: Reply) -> Reply:
        if reply.body != b"whole":
            raise EngineDown(reply.text)
        return reply

    with server(lambda path, body: (200, answers.pop(0))) as url:
        assert send(url, tries=3, read=read).text == "whole"
    with server(lambda path, body: (200, b"half")) as url, pytest.raises(EngineDown, match="half"):
        send(url, tries=2, read=read)


def test_a_pause_is_what_the_server_asks_for_within_reason_else_it_grows() -> None:
    assert [pause(attempt, "") for attempt in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert (pause(1, "7"), pause(1, "86400")) == (7.0, http.LONGEST_PAUSE)
    assert pause(1, "Wed, 21 Oct 2015 07:28:00 GMT") == pause(1, "-3") == pause(1, "²") == 1.0


def test_requests_that_are_cancelled_leave_no_connection_open() -> None:
    """With httpx 0.28 this costs every slot of a limited pool; ours is not limited and would grow without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def give_up(client: HTTPClient, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(client.send("/x"), seconds)

    async def scenario() -> None:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HTTPClient(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        for n in range(50):
            await asyncio.gather(*(give_up(client, 0.001 * (1 + (n + k) % 20)) for k in range(20)))
        pool = client._client._transport._pool  # type: ignore[attr-defined]
        await until(lambda: all(connection.is_idle() for connection in pool.connections))
        assert (await client.send("/x")).ok
        await client.close()
        listening.close()

    asyncio.run(scenario())


def test_a_closed_client_does_not_answer() -> None:
    async def scenario() -> None:
        client = HTTPClient("http://127.0.0.1:9")
        await client.close()
        with pytest.raises(EngineDown, match="closed"):
            await client.send("/x")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://[::1", "", "file:///etc/passwd", "http://x:y"]
)
def test_what_is_not_an_http_address_has_no_host(url: str) -> None:
    assert host_of(url) == ""
