"""Servers that die, hang, lie and shut down: the same answer from another one, or an error that says so."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from typing import Any

import pytest

from agon.deploy.serve.admission import Keys
from agon.deploy.serve.gateway import application
from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.serving import Address, _serve, _Server, build_gateway, gateway_config
from agon.types import Policy
from tests.waiting import until

from .helpers import Served, body, events, joined, served

BROKEN = ("garbage", "half-close", "cut", "error-done", "abort", "status-500", "no-adapter")


async def plain(up: Served) -> dict[str, Any]:
    """An answer while all is well, without what differs from time to time."""
    for stub in up.stubs:
        stub.mode = "normal"
    return stable((await up.ask()).json())


def stable(reply: dict[str, Any]) -> dict[str, Any]:
    return {"message": reply["choices"][0]["message"], "usage": reply["usage"]}


@pytest.mark.parametrize("stage", ["a", "b"])
@pytest.mark.parametrize("mode", BROKEN)
def test_another_server_continues_what_one_began(pair: ServedPair, mode: str, stage: str) -> None:
    async def scenario() -> None:
        stall = 0.8 if mode == "half-close" else 10.0  # one that falls silent is left then
        async with served(pair, stubs=2, stall=stall) as up:
            expected = await plain(up)
            for stub in up.stubs:
                stub.mode, stub.only, stub.times = mode, stage, 0
            up.stubs[0].times = up.stubs[1].times = 1
            reply = (await up.ask()).json()
            assert stable(reply) == expected
            kept = mode in ("garbage", "half-close", "cut", "error-done")
            assert reply["agon"]["resumed"] == (2 if kept else 0)
            found = await up.stream()
            assert found[-1] is None
            for kind in ("reasoning", "content"):
                assert joined(found, kind) == expected["message"][kind]
            assert await up.none_running()

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["cut", "error-done"])
def test_a_server_may_die_at_any_id(pair: ServedPair, mode: str) -> None:
    async def scenario() -> None:
        async with served(pair, stubs=2) as up:
            expected = await plain(up)
            for after in range(0, 60, 7):
                for policy in Policy:
                    up.stubs[0].mode = up.stubs[1].mode = mode
                    up.stubs[0].only = up.stubs[1].only = policy.value
                    up.stubs[0].after = up.stubs[1].after = after
                    up.stubs[0].times, up.stubs[1].times = 1, 0
                    found = (await up.ask()).json()
                    assert stable(found) == expected

    asyncio.run(scenario())


def test_a_server_that_is_given_up_comes_back(pair: ServedPair) -> None:
    async def scenario() -> None:
        async with served(pair, stubs=2) as up:
            first = up.gateway.replicas.members[0]
            up.stubs[0].mode, up.stubs[0].times = "no-adapter", 1
            replies = await asyncio.gather(up.ask(), up.ask())
            assert [reply.status_code for reply in replies] == [200, 200]
            await until(lambda: first.up)
            assert first.life == 2, "it was down meanwhile"

    asyncio.run(scenario())


def test_a_silent_server_is_left_within_the_stall(pair: ServedPair) -> None:
    async def scenario() -> None:
        async with served(pair, stubs=2, stall=0.3) as up:
            expected = await plain(up)
            up.stubs[0].mode = "silent"
            began = time.monotonic()
            replies = await asyncio.gather(*(up.ask() for _ in range(4)))
            assert [stable(reply.json()) for reply in replies] == [expected] * 4
            assert time.monotonic() - began < 20  # `first` is 30

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True])
def test_all_servers_silent_ends_by_the_deadline(pair: ServedPair, stream: bool) -> None:
    async def scenario() -> None:
        async with served(pair, stubs=2, deadline=1.0, first_wait=1.0, stall=30) as up:
            for stub in up.stubs:
                stub.mode = "silent"
            began = time.monotonic()
            reply = await up.ask(stream=stream)
            assert reply.status_code == 503
            assert reply.json()["error"]["type"] == "server_error"
            assert time.monotonic() - began < 20  # `first` and the stall are 30

    asyncio.run(scenario())


def test_a_deadline_in_the_second_stage_is_an_error_event_and_no_end(pair: ServedPair) -> None:
    async def scenario() -> None:
        async with served(pair, deadline=1.5, stall=30) as up:
            up.stubs[0].mode, up.stubs[0].only = "half-close", "b"
            assert (await up.ask()).status_code == 504
            reply = await up.ask(stream=True)
            found = events(reply.text)
            assert found[-1] is not None
            assert found[-1]["error"]["code"] == "deadline_exceeded"
            assert joined(found, "reasoning")

    asyncio.run(scenario())


def test_a_stream_that_breaks_off_is_counted_and_logged_as_failed(
    pair: ServedPair, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> str:
        async with served(pair, deadline=1.5, stall=30) as up:
            up.stubs[0].mode, up.stubs[0].only = "half-close", "b"
            assert (await up.stream())[-1] is not None
            return (await up.client.get("/metrics")).text

    with caplog.at_level(logging.INFO, logger="agon.deploy.serve"):
        text = asyncio.run(scenario())
    assert 'agon_requests_total{model="agon",status="504"} 1.0' in text
    assert 'status="200"' not in text
    [line] = [vars(record) for record in caplog.records if record.msg == "request"]
    assert line["status"] == 504
    assert "failed" not in line


def test_the_draft_stands_in_where_it_is_allowed_and_says_so(pair: ServedPair) -> None:
    async def scenario() -> None:
        async with served(pair, stubs=1) as up:
            alone = (await up.ask(model="a")).json()["choices"][0]["message"]["content"]
            up.stubs[0].mode, up.stubs[0].only = "status-500", "b"
            assert (await up.ask()).status_code in (502, 503)
            reply = (await up.ask(agon={"fallback": "draft"})).json()
            assert reply["agon"]["fallback"] == "draft"
            assert reply["choices"][0]["message"]["content"] == alone
            found = await up.stream(agon={"fallback": "draft"})
            assert found[-1] is None
            assert found[-2]["agon"]["fallback"] == "draft"
            assert joined(found, "content") == alone

    asyncio.run(scenario())


def test_a_draft_that_takes_too_long_is_cut_and_the_challenger_answers(pair: ServedPair) -> None:
    async def scenario() -> None:
        async with served(pair, deadline=3.0, stall=30) as up:
            up.stubs[0].mode, up.stubs[0].only = "half-close", "a"
            reply = (await up.ask()).json()
            first, second = reply["agon"]["stages"]
            assert (first["finish"], second["finish"]) == ("length", "stop")

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("seconds", [0.05, 0.15, 0.5])
def test_who_leaves_stops_the_servers(pair: ServedPair, stream: bool, seconds: float) -> None:
    async def scenario() -> None:
        async with served(pair, delay=0.1) as up:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(seconds):
                    await up.client.post("/v1/chat/completions", json=body(stream=stream))
            assert await up.none_running(1.0)
            await until(lambda: not up.gateway.traffic.at_work)
            assert all(replica.busy == 0 for replica in up.gateway.replicas.members)

    asyncio.run(scenario())


def test_a_gateway_that_is_stopped_before_a_server_is_there_leaves_no_traceback(
    pair: ServedPair, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        gateway = build_gateway(pair, ["http://127.0.0.1:9"], pair.folder.info.versions, GatewaySettings())
        server = _Server(gateway_config(application(gateway, Keys([])), Address(port=0)))
        running = asyncio.create_task(_serve(server, gateway, ()))
        await server.listening.wait()
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        await running

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
        gc.collect()
    events = [record.getMessage() for record in caplog.records if record.name in ("agon.deploy.serve", "asyncio")]
    assert events[-2:] == ["stopping", "stopped"]
    assert "ready" not in events
