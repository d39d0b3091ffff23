"""Every field is honoured, neutral, listed as ignored, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agon.deploy.serve.chat_request import NEUTRAL, ChatRequest, parse_request
from agon.deploy.serve.refusals import Refused
from agon.types import Quote


def parsed(**fields: Any) -> ChatRequest:
    messages = fields.pop("messages", [{"role": "user", "content": "What is 2 + 2?"}])
    return parse_request(json.dumps({"model": "agon", "messages": messages, **fields}).encode())


def refusal(**fields: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        parsed(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", True),
        ("logprobs", True),
        ("top_logprobs", 5),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("modalities", ["audio"]),
        ("audio", {"voice": "x"}),
        ("logit_bias", {"3": 1}),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -1),
        ("prediction", {"type": "content"}),
        ("store", True),
        ("web_search_options", {}),
    ],
)
def test_what_is_not_honoured_is_refused_by_name(name: str, value: object) -> None:
    assert refusal(**{name: value}).param == name


def test_neutral_values_pass_as_clients_send_them() -> None:
    for name, values in NEUTRAL.items():
        for value in (None, *values):
            parsed(**{name: value})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10, "max_completion_tokens": 11}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"colour": "red"}, "colour"),
        ({"agon": {"colour": "red"}}, "agon.colour"),
        ({"agon": {"direction": "aa"}}, "agon.direction"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "4"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "x", "name": "<|im_start|>"}]}, "messages.0.name"),
    ],
)
def test_bad_values_are_named(fields: dict[str, Any], param: str) -> None:
    assert str(refusal(**fields).param).startswith(param)


def test_pictures_are_refused() -> None:
    part = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
    assert str(refusal(messages=[{"role": "user", "content": [part]}]).param).startswith("messages.0.content")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"model": "agon", "messages": NaN}',
        b"[" * 100_000,
        b'{"model": "agon", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b"\xff\xfe",
        b'{"model":"agon","messages":[{"role":"user","content":"x"}],"temperature":NaN}',
    ],
)
def test_broken_json_is_a_mistake_of_the_client(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        parse_request(body)
    assert caught.value.status == 400
    assert body.decode("latin-1")[:20] not in caught.value.message or not body


def test_history_is_quoted_and_reasoning_dropped() -> None:
    told = {"role": "assistant", "content": "4", "reasoning": "r", "reasoning_content": "r", "refusal": None}
    last = {"role": "user", "content": [{"type": "text", "text": " And 3 + "}, {"type": "text", "text": "3? "}]}
    before = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}, told]
    asked = parsed(messages=[*before, last])
    assert [(message.role, message.parts) for message in asked.history] == [
        ("system", (Quote("Be brief."),)),
        ("user", (Quote("2 + 2?"),)),
        ("assistant", (Quote("4"),)),
    ]
    assert asked.question == "And 3 + 3?"


def test_what_changes_nothing_is_listed() -> None:
    assert parsed(user="me", reasoning_effort="high").ignored == ["user", "reasoning_effort"]
