"""Servers that lie: what is read of them is bounded, and an ending that is known stays known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from agon.deploy.serve import upstream
from agon.deploy.serve.upstream import Ask, DrawEnd, ReplicaFailed, RequestRejected, Upstream
from agon.types import Sampling

ASK = Ask("a", (1, 2), Sampling(0.0, 1.0, 4), 0, "id")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
LIST = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"


def event(ids: list[int], finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "token_ids": ids, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "a", "choices": [choice], **fields}).encode() + b"\n\n"


@asynccontextmanager
async def lying(head: bytes, then: bytes = b"", *, endless: bool = False) -> AsyncIterator[tuple[Upstream, list[int]]]:
    """A server that says `head`, then something once or without end, then nothing; and the bytes it sent."""
    sent = [0]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while True:
                writer.write(then)
                await writer.drain()
                await asyncio.sleep(0)
                sent[0] += len(then)
                if not endless:
                    await reader.read()  # what is left of the request
                    await reader.read(1)
                    return

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    asked = Upstream(url, stop=frozenset({9}), vocabulary=10, first=10.0, stall=10.0)
    try:
        yield asked, sent
    finally:
        await asked.close()
        server.close()


async def draw(asked: Upstream) -> tuple[DrawEnd, list[int]]:
    ids: list[int] = []

    async def take(more: tuple[int, ...]) -> None:
        ids.extend(more)

    return await asked.draw(ASK, take), ids


@pytest.mark.parametrize("then", [b"", b": ping\n\n", event([6])])
def test_an_ending_that_is_known_is_not_lost(monkeypatch: pytest.MonkeyPatch, then: bytes) -> None:
    monkeypatch.setattr(upstream, "USAGE", 0.3)

    async def scenario() -> None:
        async with lying(STREAM + event([5], "stop"), then, endless=bool(then)) as (asked, _):
            async with asyncio.timeout(5):
                assert await draw(asked) == (DrawEnd("stop"), [5])

    asyncio.run(scenario())


def test_the_usage_after_the_end_is_read() -> None:
    usage = {"usage": {"prompt_tokens_details": {"cached_tokens": 3}}, "choices": []}
    last = b"data: " + json.dumps(usage).encode() + b"\n\n"

    async def scenario() -> None:
        async with lying(STREAM + event([5], "stop") + last) as (asked, _):
            assert await draw(asked) == (DrawEnd("stop", 3), [5])

    asyncio.run(scenario())


def test_the_reason_of_a_refusal_is_read_in_part() -> None:
    async def scenario() -> None:
        async with lying(b"HTTP/1.1 400 X\r\nconnection: close\r\n\r\n", b"x" * 10_000, endless=True) as (asked, sent):
            with pytest.raises(RequestRejected) as refused:
                await draw(asked)
            assert len(str(refused.value)) == upstream.REASON
            assert sent[0] < 20 << 20  # what the sockets buffer

    asyncio.run(scenario())


def test_a_list_of_models_without_end_is_given_up() -> None:
    async def scenario() -> None:
        async with lying(LIST + b'{"data":[', b'{"id":"x"},' * 1000, endless=True) as (asked, sent):
            with pytest.raises(ReplicaFailed):
                await asked.models()
            assert sent[0] < 20 << 20

    asyncio.run(scenario())


@pytest.mark.parametrize("length", [-5, 0, 10**30, True, "9"])
def test_a_length_that_is_none_is_no_server_of_ours(length: object) -> None:
    async def scenario() -> None:
        body = json.dumps({"data": [{"id": "a", "max_model_len": length}]}).encode()
        head = LIST.replace(b"connection", b"content-length: %d\r\nconnection" % len(body))
        async with lying(head + body) as (asked, _):
            with pytest.raises(ReplicaFailed):
                await asked.models()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "evil"},
        {"choices": [{"index": 7, "token_ids": [5], "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "token_ids": [5]}, {"index": 1, "token_ids": [6]}]},
    ],
)
def test_the_answer_to_a_different_request_is_not_taken(fields: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with lying(STREAM + event([5], "stop", **fields)) as (asked, _):
            with pytest.raises(ReplicaFailed, match="different request"):
                await draw(asked)

    asyncio.run(scenario())


def test_a_stage_that_waits_while_its_server_works_for_others_is_no_failure_of_it() -> None:
    """vLLM preempts streams where its cache is full."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        seed = json.loads(await reader.readexactly(size))["seed"]
        writer.write(STREAM + event([5]))
        for _ in range(25 if seed else 0):
            await asyncio.sleep(0.1)
            writer.write(event([5]))
        if seed:
            writer.write(event([5], "stop"))
        with suppress(ConnectionError):
            await writer.drain()
            await reader.read(1)

    async def scenario() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        asked = Upstream(url, stop=frozenset({9}), vocabulary=10, first=10.0, stall=2.0)

        async def take(ids: tuple[int, ...]) -> None: ...

        one, other = (replace(ASK, seed=seed, sampling=Sampling(0.0, 1.0, 40)) for seed in (0, 1))
        works = asyncio.ensure_future(asked.draw(other, take))
        with pytest.raises(upstream.StageSilent):
            await asked.draw(one, take)
        assert (await works).finish == "stop"
        with pytest.raises(ReplicaFailed, match="silent") as alone:
            await asked.draw(one, take)
        assert alone.value.gone
        await asked.close()
        server.close()

    asyncio.run(scenario())
