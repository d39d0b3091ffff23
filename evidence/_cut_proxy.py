"""A proxy before a vLLM server that breaks a connection after some ids of a completion, as a server does that dies.

It runs in a thread of its own. A completion that is to break is asked for one id per event, so that it can break after
any id; everything else passes through unchanged.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from _server import free_port

IDS = re.compile(rb'"token_ids": ?\[([\d, ]+)\]')
"""Ids of an event; those of the prompt have a name of their own."""


@dataclass
class CutProxy:
    """Breaks one completion whose model's name begins with `model`, after `after` ids; `cut` says that it did."""

    port: int
    """Of the server, on this machine."""
    model: str = ""
    after: int = 0
    cut: bool = True
    own: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.own}"

    def arm(self, model: str, after: int) -> None:
        self.model, self.after, self.cut = model, after, False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                await self.pass_on(head, body, writer)
        writer.close()

    async def pass_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        """One request over a connection of its own, whose end is the answer's."""
        breaks = not self.cut and b'"model":"%s' % self.model.encode() in body
        if breaks:
            body = re.sub(rb'"stream_interval":\d', b'"stream_interval":1', body)
        upstream, sink = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            sink.write(re.sub(rb"(?i)connection: keep-alive\r\n", b"", head)[:-2] + b"Connection: close\r\n\r\n" + body)
            drawn = 0
            while piece := await upstream.read(1 << 16):
                drawn += sum(len(ids.split(b",")) for ids in IDS.findall(piece))
                writer.write(piece)
                await writer.drain()
                if breaks and drawn >= self.after:
                    self.cut = True
                    break
        finally:
            sink.close()
        writer.transport.abort() if breaks and self.cut else writer.close()
        raise ConnectionResetError

    @contextmanager
    def running(self) -> Iterator[CutProxy]:
        """Listen until the end of the block."""
        loop = asyncio.new_event_loop()
        loop.run_until_complete(asyncio.start_server(self.handle, "127.0.0.1", self.own, limit=16 << 20))
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
