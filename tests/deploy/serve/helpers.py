"""A gateway over stub servers, all on the event loop of the test."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "evidence"))
from _serve import recording, write_halves
from _stub_vllm import Stub
from agon.deploy.serve.admission import Keys
from agon.deploy.serve.chat_answer import Gateway
from agon.deploy.serve.gateway import application
from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.serving import Address, build_gateway, gateway_config

__all__ = ["Served", "body", "events", "joined", "served", "write_halves"]
QUICK = GatewaySettings(deadline=60, stall=10.0, first=30.0, first_wait=20.0, slots=16, queue=16)
RECORDED: dict[str, Any] = recording()
QUESTION: str = RECORDED["questions"][0]


@dataclass
class Served:
    """A gateway that runs, a client of it, and the stubs behind it."""

    gateway: Gateway
    client: httpx2.AsyncClient
    stubs: list[Stub]
    port: int

    async def ask(self, question: str = QUESTION, **fields: Any) -> httpx2.Response:
        return await self.client.post("/v1/chat/completions", json=body(question, **fields))

    async def stream(self, question: str = QUESTION, **fields: Any) -> list[dict[str, Any] | None]:
        """The events of an answer; None is `[DONE]`."""
        reply = await self.ask(question, stream=True, **fields)
        assert reply.status_code == 200, reply.text
        return events(reply.text)

    async def none_running(self, seconds: float = 3.0) -> bool:
        """Whether the stubs come to have nothing to do. Counted in turns of the loop: theirs wait as long as ours."""
        for _ in range(round(seconds / 0.01)):
            if not any(stub.running for stub in self.stubs):
                return True
            await asyncio.sleep(0.01)
        return False


def body(question: str = QUESTION, **fields: Any) -> dict[str, Any]:
    return {"model": "agon", "messages": [{"role": "user", "content": question}], "temperature": 0, **fields}


def events(text: str) -> list[dict[str, Any] | None]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [None if line == "[DONE]" else json.loads(line) for line in lines]


def joined(found: Iterable[dict[str, Any] | None], kind: str) -> str:
    """The text of one kind in the events of a stream."""
    choices = [choice for event in found if event for choice in event.get("choices", ())]
    return "".join(choice["delta"].get(kind) or "" for choice in choices)


@asynccontextmanager
async def served(
    pair: ServedPair,
    stubs: int = 1,
    keys: Iterable[str] = (),
    delay: float = 0.0,
    **settings: Any,
) -> AsyncIterator[Served]:
    """A gateway over so many stubs."""
    async with AsyncExitStack() as stack:
        running = [Stub(RECORDED, delay) for _ in range(stubs)]
        urls = [await _stub_url(stub, stack) for stub in running]
        gateway = build_gateway(pair, urls, pair.folder.info.versions, replace(QUICK, **settings))
        port = await stack.enter_async_context(_listening(application(gateway, Keys(keys))))
        async with asyncio.timeout(60):
            await gateway.replicas.joined()
            while not all(replica.up for replica in gateway.replicas.members):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
        yield Served(gateway, await stack.enter_async_context(client), running, port)


async def _stub_url(stub: Stub, stack: AsyncExitStack) -> str:
    server = await asyncio.start_server(stub.handle, "127.0.0.1", 0, limit=1 << 24)
    stack.callback(server.close)
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def _listening(app: Any) -> AsyncIterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        config = gateway_config(app, Address())
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve([listener]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task
