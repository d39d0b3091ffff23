"""A model behind a URL: what is sent, what is kept, and what becomes of a request that nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.engine import http_client as http
from agon.engine.endpoint import KEY, CompletionCache, Endpoint, Kept
from agon.errors import EngineError
from agon.game.peek import escape
from agon.types import Completion, Message, Policy, Prompt, Quote, Request, Sampling
from tests.engine.helpers.servers import server

TEXT = "<think>t</think>s <answer>4</answer>"
KEPT = Kept(key="k", text=TEXT, prompt_tokens=3, generated_tokens=5, finish="stop", opened=False)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "pause", lambda *_: 0.0)


class Server:
    """Answers with `status`; keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.bodies = 200, list[Any]()

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"data": [{"id": "m"}]}
        self.bodies.append(body)
        choices = [{"message": {"content": TEXT}, "finish_reason": "stop"}]
        return self.status, {"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 5}}


@pytest.fixture
def served() -> Iterator[tuple[str, Server]]:
    answers = Server()
    with server(answers) as url:
        yield url, answers


def request(seed: int = 7, text: str = "</think><|im_end|>") -> Request:
    return Request(Prompt((Message("user", ("Read: ", Quote(text))),)), Policy.B, seed, Sampling(0.6, 0.95, 9))


def ask(url: str, folder: Path, *requests: Request, model: str = "m") -> list[Completion]:
    endpoint = Endpoint(url, model, CompletionCache(folder), escape=escape)
    try:
        return [asyncio.run(endpoint.sample(one)) for one in requests or [request()]]
    finally:
        endpoint.close()


def test_a_completion_carries_its_version_and_counts_and_nothing_to_learn_from(
    served: tuple[str, Server], tmp_path: Path
) -> None:
    (drawn,) = ask(served[0], tmp_path)
    assert (drawn.text, drawn.version, drawn.prompt_tokens, drawn.generated_tokens) == (TEXT, "endpoint:m", 3, 5)
    assert drawn.tokens is None
    assert not drawn.failure
    assert drawn.version.policy is None
    (body,) = served[1].bodies
    assert body["model"] == "m"
    assert "<|im_end|>" not in body["messages"][0]["content"], "quotes go escaped"


def test_what_was_drawn_is_not_drawn_again_by_the_next_process(served: tuple[str, Server], tmp_path: Path) -> None:
    first = ask(served[0], tmp_path, request(), request(seed=8), request(text="other"))
    assert len(served[1].bodies) == 3, "seed and prompt tell requests apart"
    assert ask(served[0], tmp_path, request(), request(seed=8), request(text="other")) == first
    assert len(served[1].bodies) == 3
    served[1].status = 503
    assert ask(served[0], tmp_path, request()) == first[:1]


def test_a_torn_or_foreign_line_is_drawn_again(tmp_path: Path) -> None:
    CompletionCache(tmp_path).put(KEPT)
    file = tmp_path / "cache_000.jsonl"
    file.write_bytes(b'{"key": "evil", "text": 1}\n' + file.read_bytes() + b'{"key": "to')
    cache = CompletionCache(tmp_path, rank=1)
    assert (cache.get("k"), cache.get("evil"), cache.get("to")) == (KEPT, None, None)
    CompletionCache(tmp_path).put(KEPT.model_copy(update={"key": "after"}))
    assert CompletionCache(tmp_path).get("after") is not None, "a torn line does not swallow the next"


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_a_request_without_an_answer_is_a_failure_and_is_not_kept(
    served: tuple[str, Server], tmp_path: Path, status: int
) -> None:
    served[1].status = status
    (drawn,) = ask(served[0], tmp_path)
    assert drawn.failure.startswith("endpoint:m gave no answer: ")
    assert (drawn.text, drawn.generated_tokens) == ("", 0)
    served[1].status = 200
    assert ask(served[0], tmp_path)[0].text == TEXT


def test_a_server_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    with server(Server()) as url:
        pass
    assert "does not answer" in ask(url, tmp_path)[0].failure


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_every_request_would_meet_is_an_error(served: tuple[str, Server], tmp_path: Path, status: int) -> None:
    served[1].status = status
    with pytest.raises(EngineError, match=str(status)) as caught:
        ask(served[0], tmp_path)
    assert status == 404 or KEY in caught.value.fix


def test_a_model_that_is_not_served_is_refused_before_the_run(served: tuple[str, Server], tmp_path: Path) -> None:
    endpoint = Endpoint(served[0], "larger", CompletionCache(tmp_path), escape=escape)
    try:
        with pytest.raises(EngineError, match="does not serve larger") as caught:
            endpoint.check()
    finally:
        endpoint.close()
    assert "rival.model" in caught.value.fix


def test_the_key_of_a_rival_is_not_that_of_other_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGON_API_KEY", "for-the-sampler")
    monkeypatch.delenv(KEY, raising=False)
    endpoint = Endpoint("http://localhost:1/v1", "m", CompletionCache(tmp_path), escape=escape)
    headers = endpoint._server._client._client.headers
    endpoint.close()
    assert "authorization" not in headers
