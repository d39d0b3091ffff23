"""One vLLM server: ids in, ids out, always streamed, so that a hang shows and what has arrived can be continued.

What ends a completion is its `finish_reason`, never `[DONE]`: a server that is shutting down sends `[DONE]` after an
error, and 200 with an empty text and `abort` to whoever comes late. Once it has come, nothing that the server does
changes the completion. Of everything else that a server sends, a bounded beginning is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import httpx2
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from agon.engine.http_client import KEEP_ALIVE, NEUTRAL
from agon.pool import WorkerDown
from agon.types import Finish, Sampling

LONGEST_LINE = 4 << 20
"""Bytes of one event; the first repeats the prompt's ids."""
CONNECT = 5.0
"""Seconds to connect, and for a short question such as /v1/models."""
USAGE = 2.0
"""Seconds for the event with the usage, which follows the end of a completion."""
MODELS, REASON = 1 << 20, 2000
"""Bytes of a list of models, and of the reason for a refusal, that are read."""

Take = Callable[[tuple[int, ...]], Awaitable[None]]
"""Gets new ids."""


class ReplicaFailed(WorkerDown):
    """The server failed, not the request: it can be continued elsewhere. `gone`: nothing should be sent to it now."""

    def __init__(self, reason: str, *, gone: bool = False) -> None:
        super().__init__(reason)
        self.gone = gone


class StageSilent(Exception):
    """The server works for others and not for this stage, as where vLLM has preempted it: no failure of the server."""


class RequestRejected(Exception):
    """The server refused the request itself; another server would too."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ids to continue."""

    model: str
    ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    request_id: str
    urgent: bool = False
    interval: int = 1
    """Tokens per event."""


@dataclass(frozen=True, slots=True)
class DrawEnd:
    """How a completion ended; `cached` prompt tokens where the server counts them."""

    finish: Finish
    cached: int = 0


class _Frozen(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Choice(_Frozen):
    index: int = 0
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None


class _Details(_Frozen):
    cached_tokens: int | None = None


class _Usage(_Frozen):
    prompt_tokens_details: _Details | None = None


class _Chunk(_Frozen):
    model: str | None = None
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    error: JsonValue = None


class _Served(_Frozen):
    id: str
    max_model_len: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None


class _ServedModels(_Frozen):
    data: tuple[_Served, ...]


class Upstream:
    """Talks to one server. `first` and `stall` are seconds: to the first ids, and between two events after them."""

    def __init__(
        self, url: str, *, stop: frozenset[int], vocabulary: int, first: float, stall: float, key: str = ""
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.first, self.stall = first, stall
        self.takes_priority = False
        self.events = 0
        """Events that have arrived."""
        self.heard = 0.0
        """When the last one did, of any stage."""
        self.waiting: set[asyncio.Timeout] = set()
        """Of requests that wait for their first ids."""
        self._stop, self._vocabulary = sorted(stop), vocabulary
        self._client = httpx2.AsyncClient(
            base_url=self.url,
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx2.Timeout(None, connect=CONNECT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE),
            trust_env=False,
        )

    async def models(self) -> dict[str, int]:
        """What the server serves, with the length of a sequence; 0 where it says none."""
        try:
            async with asyncio.timeout(CONNECT), self._client.stream("GET", "/v1/models") as reply:
                if reply.status_code != 200:
                    raise ReplicaFailed(f"/v1/models answered {reply.status_code}", gone=True)
                served = _ServedModels.model_validate_json(await _beginning(reply, MODELS)).data
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ReplicaFailed("it cannot be reached", gone=True) from error
        except (httpx2.HTTPError, TimeoutError, ValidationError) as error:
            raise ReplicaFailed(f"/v1/models: {type(error).__name__}", gone=True) from error
        return {model.id: model.max_model_len or 0 for model in served}

    async def draw(self, ask: Ask, take: Take) -> DrawEnd:
        """Draw a completion and pass its ids on as they arrive; ReplicaFailed when the server fails or falls silent."""
        try:
            async with asyncio.timeout(self.first) as limit:
                self.waiting.add(limit)
                try:
                    return await self._stream(ask, take, limit)
                finally:
                    self.waiting.discard(limit)
        except TimeoutError:
            if asyncio.get_running_loop().time() - self.heard < self.stall:
                raise StageSilent from None
            raise ReplicaFailed("it fell silent", gone=True) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ReplicaFailed("it cannot be reached", gone=True) from error
        except httpx2.HTTPError as error:
            raise ReplicaFailed(f"the connection broke ({type(error).__name__})") from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _stream(self, ask: Ask, take: Take, limit: asyncio.Timeout) -> DrawEnd:
        body, headers = self._body(ask), {"X-Request-Id": ask.request_id, "Content-Type": "application/json"}
        async with self._client.stream("POST", "/v1/completions", content=body, headers=headers) as response:
            if response.status_code != 200:
                raise await _refusal(response)
            return await self._read(ask, response, take, limit)

    async def _read(self, ask: Ask, response: httpx2.Response, take: Take, limit: asyncio.Timeout) -> DrawEnd:
        loop, drawn, stream = asyncio.get_running_loop(), 0, events(response.aiter_raw())
        async for data in stream:
            self.events, self.heard = self.events + 1, loop.time()
            chunk = _parsed(data)
            if not chunk.choices:
                continue
            [choice, *more] = chunk.choices
            if more or choice.index or chunk.model not in (None, ask.model):
                raise ReplicaFailed("it answers a different request")
            if choice.prompt_token_ids not in (None, ask.ids):
                raise ReplicaFailed("it answers a different prompt")
            ids = choice.token_ids or ()
            drawn += len(ids)
            self._check(ids, drawn, ask)
            if ids:
                limit.reschedule(None)  # a client that reads slowly is not a silent server
                self.waiting.discard(limit)
                await take(ids)
                limit.reschedule(loop.time() + self.stall)
            if finish := _finish(choice.finish_reason, drawn):
                limit.reschedule(None)
                return DrawEnd(finish, await _cached(stream))
        raise ReplicaFailed("it closed the connection before the completion ended")

    def _check(self, ids: tuple[int, ...], drawn: int, ask: Ask) -> None:
        if drawn > ask.sampling.max_tokens or any(not 0 <= token < self._vocabulary for token in ids):
            raise ReplicaFailed("it sent ids that cannot be a completion")

    def _body(self, ask: Ask) -> bytes:
        body: dict[str, object] = {
            "model": ask.model,
            "prompt": ask.ids,
            "temperature": ask.sampling.temperature,
            "top_p": ask.sampling.top_p,
            "max_tokens": ask.sampling.max_tokens,
            "seed": ask.seed,
            "stop_token_ids": self._stop,
            "return_token_ids": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "stream_interval": ask.interval,
            **NEUTRAL,
        }
        if ask.urgent and self.takes_priority:
            body["priority"] = -1
        return json.dumps(body, separators=(",", ":")).encode()


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of server-sent events; comments and `[DONE]` are skipped."""
    held = b""
    async for piece in pieces:
        held += piece
        *lines, held = held.split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                yield data
        if len(held) > LONGEST_LINE:
            raise ReplicaFailed("it sent a line without end")


async def _cached(stream: AsyncIterator[bytes]) -> int:
    """The prompt tokens that were cached, if the server still says so."""
    with suppress(TimeoutError, httpx2.HTTPError, ReplicaFailed):
        async with asyncio.timeout(USAGE):
            async for data in stream:
                if usage := _parsed(data).usage:
                    return (usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0
    return 0


def _parsed(data: bytes) -> _Chunk:
    try:
        chunk = _Chunk.model_validate_json(data)
    except ValidationError as error:
        raise ReplicaFailed("it sent what is not an event of a completion") from error
    if chunk.error is not None:
        raise ReplicaFailed("it reported an error in the stream")
    return chunk


def _finish(reason: str | None, drawn: int) -> Finish | None:
    """A completion without ids, or one that was aborted, comes from a server that is shutting down."""
    if reason is None:
        return None
    if reason not in ("stop", "length") or not drawn:
        raise ReplicaFailed(f"it ended the completion with {reason[:20]!r} after {drawn} ids", gone=True)
    return "stop" if reason == "stop" else "length"


async def _refusal(response: httpx2.Response) -> Exception:
    """What a status other than 200 means: an unknown adapter is a server that was restarted, not a client's fault."""
    status = response.status_code
    if status == 400:
        return RequestRejected((await _beginning(response, REASON)).decode("utf-8", "replace"))
    return ReplicaFailed(f"it answered {status}", gone=status in (401, 403, 404) or 300 <= status < 400)


async def _beginning(response: httpx2.Response, size: int) -> bytes:
    """So many bytes of a body; the rest is not read."""
    data = b""
    async for piece in response.aiter_raw():
        data += piece
        if len(data) >= size:
            break
    return data[:size]
