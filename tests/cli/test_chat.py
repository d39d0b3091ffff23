"""`agon chat`: pieces of a stream, and streams that break off."""

from __future__ import annotations

import json

import pytest

from agon.cli.chat import pieces
from agon.errors import RunError


def event(**delta: str) -> str:
    return "data: " + json.dumps({"choices": [{"delta": delta}]})


def test_reasoning_and_content_come_as_they_are_written() -> None:
    lines = [event(role="assistant", content=""), ": ping", "", event(reasoning="so"), event(content="4\x1b[2J")]
    assert list(pieces([*lines, "data: [DONE]"])) == [("reasoning", "so"), ("content", "4<U+001B>[2J")]


@pytest.mark.parametrize("last", [[], ['data: {"error": {"message": "no server is up"}}', "data: [DONE]"]])
def test_a_stream_that_breaks_off_is_an_error(last: list[str]) -> None:
    with pytest.raises(RunError):
        list(pieces([event(content="4"), *last]))
