"""The middleware for duels: what it changes of a request, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agon.engine.vllm.token_names import PATH, TokenNames


def passed(path: str, *parts: bytes) -> tuple[bytes, bytes]:
    """The body that reaches the server, and the length that it is told."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        seen.append((body, dict(scope["headers"])[b"content-length"]))

    messages = [{"type": "http.request", "body": part, "more_body": n < len(parts) - 1} for n, part in enumerate(parts)]
    length = str(sum(map(len, parts))).encode()

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "path": path, "headers": [(b"content-length", length)]}
    asyncio.run(TokenNames(app)(scope, receive, send))
    return seen[0]


def test_a_request_in_parts_gets_the_text_mode_and_its_new_length() -> None:
    body, length = passed(PATH, b'{"token_ids": [1,', b" 2]}")
    assert json.loads(body) == {"token_ids": [1, 2], "output_mode": "text"}
    assert int(length) == len(body)


@pytest.mark.parametrize(
    ("path", "body"),
    [(PATH, b'{"output_mode": "tokens"}'), (PATH, b"{"), (PATH, b"[]"), ("/v1/completions", b'{"prompt": "a"}')],
)
def test_a_mode_that_is_named_and_what_is_no_such_request_stay_as_they_are(path: str, body: bytes) -> None:
    assert passed(path, body) == (body, str(len(body)).encode())
