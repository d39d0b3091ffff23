"""The HTTP client of every engine that is a server: JSON in and out, a deadline, retries, a size limit.

Redirects are not followed: they would carry the key elsewhere. The key is read from AGON_API_KEY, or from the variable
that a caller names. Proxies of the environment are used only where a caller allows them, and never for this machine.
One client serves one event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx2

from agon.engine.protocol import EngineDown
from agon.errors import EngineError
from agon.urls import host_of

T = TypeVar("T")

KEY = "AGON_API_KEY"
LOCAL = ("localhost", "127.0.0.1", "::1")
LARGEST = 64 << 20
"""Bytes of a reply."""
KEEP_ALIVE = 3.0
"""Seconds that an idle connection is kept: vLLM closes its end after 5, and a request that meets that is lost."""
NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Sampling fields that are sent although they change nothing: vLLM would take them from the checkpoint's own file."""
TEMPORARY = (408, 409, 425, 429, 500, 502, 503, 504)
"""Status codes that are worth another try."""
DENIED = (401, 403, 407)
"""Status codes of a server, or of a proxy in front of it, that does not let a request through."""
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    url: str
    status: int
    body: bytes
    retry_after: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class HTTPClient:
    """Talks to one server. `limit` is the deadline of a whole exchange, in seconds."""

    def __init__(self, url: str, *, limit: float | None = None, proxies: bool = False, key: str = KEY) -> None:
        self.url, self._limit = url.rstrip("/"), limit
        key = os.environ.get(key, "").strip()
        self._client = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=None,
            limits=httpx2.Limits(keepalive_expiry=KEEP_ALIVE),
            trust_env=proxies and host_of(url) not in LOCAL,
        )

    async def send(self, path: str, body: Mapping[str, object] | None = None, *, limit: float | None = None) -> Reply:
        """POST a body, or GET without one; EngineDown if no reply comes back in time."""
        url, method, limit = self.url + path, "GET" if body is None else "POST", limit or self._limit
        if self._client.is_closed:
            raise EngineDown(f"the connection to {self.url} was closed")
        try:
            async with asyncio.timeout(limit), self._client.stream(method, url, json=body) as response:
                data = await _read(response)
        except TimeoutError:
            raise EngineDown(f"{url} does not answer within {limit:g} s") from None
        except httpx2.HTTPError as error:
            raise EngineDown(f"{url} does not answer: {error!r}") from error
        return Reply(url, response.status_code, data, response.headers.get("Retry-After", ""))

    async def send_with_retries(
        self, path: str, body: Mapping[str, object] | None, read: Callable[[Reply], T], *, tries: int
    ) -> T | Reply:
        """Send until a reply is final: one that `read` reads without EngineDown, or a refusal that lasts."""
        attempt = 0
        while True:
            attempt += 1
            try:
                reply = await self.send(path, body)
                if reply.ok:
                    return read(reply)
                if reply.status not in TEMPORARY or attempt == tries:
                    return reply
                retry_after = reply.retry_after
            except EngineDown:
                if attempt == tries:
                    raise
                retry_after = ""
            await asyncio.sleep(pause(attempt, retry_after))

    async def close(self) -> None:
        await self._client.aclose()


async def _read(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > LARGEST:
            raise EngineError(f"{response.url} sent more than {LARGEST >> 20} MiB", fix="lower max_completion_tokens")
    return bytes(data)


def pause(attempt: int, retry_after: str) -> float:
    """Seconds before the next try: what the server asks for, within reason, else longer each time."""
    return min(float(retry_after), LONGEST_PAUSE) if retry_after.isdecimal() else 0.5 * 2**attempt
