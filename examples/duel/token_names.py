"""Middleware of `vllm serve` for duels: log-probs of `/inference/v1/generate` as verifiers reads them.

verifiers 0.4.0 expects the name `token_id:N` beside each log-prob. vLLM 0.32 writes such names in its text mode alone,
and only with --return-tokens-as-token-ids. Its answers have the token ids in both modes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PATH = "/inference/v1/generate"


class TokenNames:
    """Asks for the text mode where a request names none."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            return await self.app(scope, receive, send)
        first = await receive()
        body, message = first.get("body", b""), first
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        with suppress(ValueError, TypeError):  # vLLM says what is wrong with it
            body = json.dumps({"output_mode": "text"} | json.loads(body)).encode()
        waiting = [{**first, "body": body, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await self.app({**scope, "headers": headers}, again, send)
