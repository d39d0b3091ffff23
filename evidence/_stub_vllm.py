"""A process that speaks vLLM's completions API with answers recorded from it, and fails on demand.

    python evidence/_stub_vllm.py PORT RECORDING [--delay SECONDS]

A prompt that was recorded, followed by any part of its answer, is continued as recorded; any other prompt gets the
answer of some recorded one. `POST /control {"mode": MODE}` changes what happens to the completions that follow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODES = ("normal", "silent", "slow", "garbage", "half-close", "cut", "error-done", "abort", "status-500", "no-adapter")
"""How completions go wrong: from the start, or after some ids."""


@dataclass
class Stub:
    """What is served, how fast, and what is at work."""

    recording: dict[str, Any]
    delay: float = 0.0
    mode: str = "normal"
    after: int = 3
    """Ids that arrive before a completion goes wrong in the middle."""
    only: str = ""
    """What the name of a model begins with, for whose completions the mode holds; those of others are normal."""
    times: int = -1
    """How many more completions go wrong; no limit below 0."""
    running: int = 0
    served: int = 0
    answers: list[tuple[str, tuple[int, ...], list[int], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers = [
            (answer["model"], tuple(answer["prompt"]), answer["ids"], answer["finish"])
            for answer in self.recording["answers"]
        ]

    def rest(self, model: str, prompt: tuple[int, ...]) -> tuple[list[int], str]:
        """The ids that follow, and how they end."""
        own = [answer for answer in self.answers if answer[0] == model]
        for _, asked, ids, finish in own:
            done = len(prompt) - len(asked)
            if 0 <= done < len(ids) and prompt[: len(asked)] == asked and list(prompt[len(asked) :]) == ids[:done]:
                return ids[done:], finish
        _, _, ids, finish = own[sum(prompt) % len(own)]
        return ids, finish

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await self.exchange(reader, writer):
                await writer.drain()
        writer.close()

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/v1/completions":
            return await self.complete(json.loads(body), reader, writer)
        if path == "/control":
            for name, value in json.loads(body).items():
                setattr(self, name, value)
        answers: dict[str, Any] = {
            "/v1/models": self.recording["models"],
            "/health": {},
            "/control": {"running": self.running, "served": self.served},
        }
        known = path in answers and not (self.mode == "silent" and path == "/v1/models")
        reply(writer, 200 if known else 404, answers.get(path, {}))
        return known or method == "GET"

    async def complete(self, asked: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        models = {model["id"] for model in self.recording["models"]["data"]}
        mode = self.next_mode(asked)
        if mode == "silent":
            await reader.read()
            return False
        if mode == "status-500" or asked["model"] not in models or mode == "no-adapter":
            reply(writer, 500 if mode == "status-500" else 404, {"error": {"message": "the model does not exist"}})
            return True
        context = self.recording["models"]["data"][0]["max_model_len"]
        if len(asked["prompt"]) >= context:
            reply(writer, 400, {"error": {"message": "the prompt is too long"}})
            return True
        self.running += 1
        left = asyncio.ensure_future(reader.read(1))
        try:
            if not asked.get("stream"):
                return await self.whole(asked, writer)
            return await self.stream(asked, mode, writer, left)
        finally:
            self.running -= 1
            self.served += 1
            left.cancel()
            await asyncio.wait({left})

    async def whole(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """A completion in one body, after as long as its events would take."""
        ids, finish = self.rest(asked["model"], tuple(asked["prompt"]))
        await asyncio.sleep(self.delay * len(ids))
        choice = self.recording["chunk"]["choices"][0] | {"token_ids": ids, "finish_reason": finish}
        usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": len(ids)}
        reply(writer, 200, {**self.recording["chunk"], "choices": [choice], "usage": usage})
        return True

    def next_mode(self, asked: dict[str, Any]) -> str:
        """How this completion goes; those that try whether a server works, one token, go well unless all is silent."""
        applies = self.times and asked["model"].startswith(self.only) and asked["max_tokens"] > 1
        if self.mode == "normal" or not (applies or self.mode == "silent"):
            return "normal"
        self.times -= 1
        return self.mode

    async def stream(
        self, asked: dict[str, Any], mode: str, writer: asyncio.StreamWriter, left: asyncio.Future[bytes]
    ) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        async for event in self.events(asked, mode, left):
            if left.done():
                return False
            writer.write(event)
            await writer.drain()
        return False

    async def events(self, asked: dict[str, Any], mode: str, left: asyncio.Future[bytes]) -> AsyncIterator[bytes]:
        prompt, step, sent = asked["prompt"], asked.get("stream_interval") or 1, 0
        ids, finish = self.rest(asked["model"], tuple(prompt))
        if len(ids) > asked["max_tokens"]:
            ids, finish = ids[: asked["max_tokens"]], "length"
        if mode == "abort":
            yield self.event(asked, [], "abort", prompt)
            return
        while sent < len(ids):
            await asyncio.sleep(self.delay * (20 if mode == "slow" else 1))
            take = ids[sent : sent + (1 if not sent else step)]
            first, sent = not sent, sent + len(take)
            if sent > self.after and mode in ("garbage", "half-close", "cut", "error-done"):
                for line in self.fault(mode):
                    yield line
                if mode == "half-close":
                    await asyncio.wait({left})
                return
            yield self.event(asked, take, finish if sent == len(ids) else None, prompt if first else None)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
        yield line_of({**self.recording["chunk"], "model": asked["model"], "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def fault(self, mode: str) -> list[bytes]:
        broken = {
            "garbage": [b"data: {]\xff\n\n"],
            "half-close": [],
            "cut": [b'data: {"id": "cmpl'],
            "error-done": [b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n', b"data: [DONE]\n\n"],
        }
        return broken[mode]

    def event(self, asked: dict[str, Any], ids: list[int], finish: str | None, prompt: list[int] | None) -> bytes:
        choice = self.recording["chunk"]["choices"][0] | {"token_ids": ids, "finish_reason": finish}
        choice |= {"prompt_token_ids": prompt, "text": ""}
        return line_of({**self.recording["chunk"], "model": asked["model"], "choices": [choice], "usage": None})


def line_of(fields: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def reply(writer: asyncio.StreamWriter, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
    )
    writer.write(data)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    args = parser.parse_args()
    stub = Stub(json.loads(args.recording.read_text()), args.delay)
    server = await asyncio.start_server(stub.handle, "127.0.0.1", args.port, limit=16 << 20, backlog=4096)
    print(f"stub {os.getpid()} listens", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
