"""Replies that are not what was asked for: every one is EngineDown, with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agon.engine.http_client import Reply
from agon.engine.protocol import EngineDown
from agon.engine.replies import Chat, Models, PlainTokens, ScoredTokens, parse

CHOICE = {"token_ids": [5, 6], "logprobs": {"token_logprobs": [-1, -0.5]}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2}


def reply(body: Any) -> Reply:
    return Reply("http://x/v1", 200, body if isinstance(body, bytes) else json.dumps(body).encode())


def test_a_reply_is_read_and_fields_that_nobody_reads_may_be_anything() -> None:
    read = parse(reply({"choices": [CHOICE | {"text": 3}], "object": None}), ScoredTokens)
    assert (read.choices[0].token_ids, read.choices[0].logprobs.token_logprobs) == ((5, 6), (-1.0, -0.5))
    assert parse(reply({"data": [{"id": "x"}]}), Models).data[0].max_model_len is None
    assert parse(reply({"choices": [CHOICE], "usage": USAGE}), PlainTokens).usage.completion_tokens == 2


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b'{"choices": [', b"<html>502</html>", b"\xff\xfe", b"[" * 100_000, b"1e999", {}, {"choices": []}],
)
def test_what_is_no_completion_is_a_failure_of_the_engine(body: Any) -> None:
    for kind in (ScoredTokens, PlainTokens, Chat):
        with pytest.raises(EngineDown, match="http://x/v1 sent a reply that cannot be read"):
            parse(reply(body), kind)


@pytest.mark.parametrize(
    "fault",
    [
        {"token_ids": None},
        {"token_ids": ["a"]},
        {"token_ids": [3.0]},
        {"token_ids": [True]},
        {"token_ids": [-5]},
        {"token_ids": [10**30]},
        {"logprobs": None},
        {"logprobs": {"token_logprobs": [None]}},
        {"logprobs": {"token_logprobs": [float("nan")]}},
        {"logprobs": {"token_logprobs": [float("-inf")]}},
        {"logprobs": {"token_logprobs": ["-1"]}},
        {"finish_reason": 3},
    ],
)
def test_a_field_of_another_kind_is_named(fault: dict[str, Any]) -> None:
    with pytest.raises(EngineDown, match=rf"choices\.0\.{next(iter(fault))}"):
        parse(reply({"choices": [CHOICE | fault]}), ScoredTokens)


def test_half_a_surrogate_in_a_text_is_a_failure_of_the_engine() -> None:
    body = b'{"choices": [{"message": {"content": "\\ud800"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}'
    with pytest.raises(EngineDown, match="cannot be read"):
        parse(reply(body), Chat)
