"""Any OpenAI-compatible URL: the completions of the engine in this process, and no hang when a server misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.engine import http_client as http
from agon.engine import openai
from agon.engine.hf.sampler import HFSampler
from agon.engine.http_client import NEUTRAL
from agon.engine.openai import OpenAISampler, from_chat
from agon.engine.render import Rendered
from agon.engine.replies import Chat
from agon.engine.shipped import folder_of
from agon.errors import EngineError
from agon.game.peek import escape
from agon.types import BASE, Completion, Message, Prompt, Quote, Request, Sampling, Version
from tests.engine.helpers.servers import VERSIONS, Answers, adapters, answers, server, serving

ANSWER = {
    "choices": [{"message": {"content": "<think>t</think>s <answer>4</answer>"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5},
}


def sampler(url: str, **options: Any) -> OpenAISampler:
    return OpenAISampler(url, "the-base", escape=escape, renderer=None, **options)


def ask(url: str, words: tuple[str | Quote, ...] = ("Count.",), **options: Any) -> Any:
    made = sampler(url, **options)
    try:
        return asyncio.run(made.sample(Request(Prompt((Message("user", words),)), BASE, 7, Sampling(0.6, 0.95, 9))))
    finally:
        made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "pause", lambda *_: 0.0)


def test_a_request_says_all_that_ours_says_and_quotes_go_escaped() -> None:
    seen: list[Any] = []
    with server(lambda path, body: (seen.append((path, body)), (200, ANSWER))[1]) as url:
        got = ask(url, ("<think> is ours, ", Quote("</think><|im_end|>"), "."))
    ((path, body),) = seen
    assert path == "/v1/chat/completions"
    content = body.pop("messages")[0]["content"]
    assert content.startswith("<think> is ours, ")
    assert not {"</think>", "<|im_end|>"} & {content[n : n + k] for n in range(len(content)) for k in (8, 10)}
    assert body == {"model": "the-base", "temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "seed": 7}
    assert (got.version, got.prompt_tokens, got.generated_tokens, got.finish) == (BASE, 3, 5, "stop")


@pytest.mark.parametrize(("code", "fix"), [(400, "--names"), (401, "AGON_API_KEY"), (503, "--names")])
def test_a_refusal_is_reported_with_the_servers_words_and_a_fix(quick: None, code: int, fix: str) -> None:
    asked = 0

    def answer(path: str, body: Any) -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        return code, {"error": "no such model"}

    with server(answer) as url, pytest.raises(EngineError, match="no such model") as refused:
        ask(url)
    assert fix in refused.value.fix
    assert asked == (openai.TRIES if code == 503 else 1)


def test_a_server_that_never_answers_is_given_up(quick: None) -> None:
    began, release = time.monotonic(), threading.Event()
    with (
        server(lambda path, body: (release.wait(60), (200, ANSWER))[1]) as url,
        pytest.raises(EngineError, match="does not answer") as stopped,
    ):
        ask(url, limit=0.05)
    release.set()
    assert "ends in /v1" in stopped.value.fix
    assert time.monotonic() - began < 30


def test_closing_cancels_what_is_in_flight() -> None:
    """A server that says nothing does not hold up the end."""
    release, asked = threading.Event(), threading.Event()

    async def scenario(made: OpenAISampler) -> None:
        task = asyncio.create_task(made.sample(Request(Prompt((Message("user", ("Count.",)),)), BASE, 7)))
        await asyncio.to_thread(asked.wait, 20)
        await asyncio.to_thread(made.close)
        with pytest.raises(asyncio.CancelledError):
            await task

    with server(lambda path, body: (asked.set(), release.wait(20), (200, ANSWER))[2]) as url:
        began = time.monotonic()
        asyncio.run(scenario(sampler(url)))
        assert time.monotonic() - began < 10
        release.set()


def test_no_more_requests_are_in_flight_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "IN_FLIGHT", 3)
    lock, now, most = threading.Lock(), 0, 0

    def answer(path: str, body: Any) -> tuple[int, Any]:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        deadline = time.monotonic() + 20
        while most < 3 and time.monotonic() < deadline:  # until as many as may be are in flight
            time.sleep(0.01)
        time.sleep(0.02)
        with lock:
            now -= 1
        return 200, ANSWER

    async def many(made: OpenAISampler) -> list[Completion]:
        prompt = Prompt((Message("user", ("Count.",)),))
        return await asyncio.gather(*(made.sample(Request(prompt, BASE, seed)) for seed in range(12)))

    with server(answer) as url:
        made = sampler(url)
        assert len(asyncio.run(many(made))) == 12
        assert len(asyncio.run(many(made))) == 12, "from another loop too"
        made.close()
    assert most == 3


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://"])
def test_what_is_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(EngineError, match="not a valid URL"):
        sampler(url)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(EngineError, match="holds a password") as refused:
        sampler("http://user:secret@127.0.0.1:8000/v1")
    assert "secret" not in str(refused.value)
    assert "AGON_API_KEY" in refused.value.fix


@pytest.mark.parametrize("value", [b"no json", [], {"choices": []}, {"choices": [{"message": {}}]}, b"[" * 100_000])
def test_an_answer_that_is_not_a_completion_is_asked_for_again_and_then_an_error(quick: None, value: Any) -> None:
    values = [value]
    with server(lambda path, body: (200, values.pop() if values else ANSWER)) as url:
        assert ask(url).generated_tokens == 5
    with server(lambda path, body: (200, value)) as url, pytest.raises(EngineError, match="cannot be read") as stopped:
        ask(url)
    assert "as OpenAI's does" in stopped.value.fix


@pytest.mark.parametrize("value", [b"<html>", [], {"data": None}, {"data": [3]}, {"data": [{"id": None}]}])
def test_a_list_of_models_that_is_none_is_an_error(quick: None, value: Any) -> None:
    with server(lambda path, body: (200, value)) as url:
        made = sampler(url)
        with pytest.raises(EngineError, match="cannot be read"):
            made.check()
        made.close()


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_aborted_completion_is_drawn_again(quick: None, reason: str) -> None:
    answers = [message("half of", finish=reason), message(None, finish=reason), ANSWER]
    with server(lambda path, body: (200, answers.pop(0))) as url:
        assert ask(url).text == ANSWER["choices"][0]["message"]["content"]
    with server(lambda path, body: (200, message("half of", finish=reason))) as url, pytest.raises(EngineError):
        ask(url)


def message(content: str | None, reasoning: str | None = None, finish: str | None = "stop") -> Any:
    parts = {"content": content, "reasoning_content": reasoning}
    return {"choices": [{"message": parts, "finish_reason": finish}], "usage": ANSWER["usage"]}


def test_reasoning_in_a_field_of_its_own_is_put_back() -> None:
    def read(*words: str | None) -> Completion:
        return from_chat(Chat.model_validate_json(json.dumps(message(*words))), BASE)

    assert read("s", "t").text == "<think>t</think>s"
    assert read(None, "t", "length").text == "<think>t"
    opened = read("t</think>s")
    assert (opened.text, opened.opened) == ("t</think>s", True)
    assert not read("<think>t</think>s").opened


def test_models_that_are_not_served_are_named() -> None:
    with server(lambda path, body: (200, {"data": [{"id": "the-base"}, {"id": "mine"}]})) as url:
        made = sampler(url)
        made.check()
        made.publish(Version("a@000001-x"), Path())
        with pytest.raises(EngineError, match=r"a@000001-x \(for a@000001-x\); it serves the-base, mine"):
            made.check()
        made.rename(Version("a@000001-x"), "mine")
        made.check()


class Words:
    """As much of a renderer as the question for token ids needs."""

    def encode(self, text: str) -> list[int]:
        return [1, 2, 3]


@pytest.mark.parametrize("status", [400, 403, 404, 407, 500, 502, 503])
def test_only_a_refusal_that_lasts_means_that_a_server_takes_no_token_ids(quick: None, status: int) -> None:
    def answer(path: str, body: Any) -> tuple[int, Any]:
        return (200, {"data": [{"id": "the-base"}]}) if body is None else (status, "not here")

    with server(answer) as url:
        made = OpenAISampler(url, "the-base", escape=escape, renderer=Words())  # type: ignore[arg-type]
        try:
            if status in (407, 502, 503):
                with pytest.raises(EngineError, match=f"/completions answered {status}"):
                    made.check()
            else:
                made.check()
                assert (made.ids, made.why_text) == (False, f"{url}/completions answered {status}")
        finally:
            made.close()


# -- the same completions as in this process --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HFSampler]:
    """The tiny base in float32 with two adapters that change what it says."""
    made = HFSampler(str(folder_of("agon:tiny")), dtype="float32")
    for policy, folder in adapters(tmp_path_factory.mktemp("adapters"), std=0.4).items():
        made.publish(VERSIONS[policy], folder)
    yield made
    made.close()


def over_http(engine: HFSampler, ids: bool) -> Answers:
    with serving(engine, ids) as url:
        there = OpenAISampler(url, "tiny", escape=escape, renderer=engine.renderer.inner)
        for version in VERSIONS.values():
            there.publish(version, Path())
        there.check()
        assert there.ids is ids
        result = answers(there)
        there.close()
    return result


@pytest.fixture(scope="module")
def here(engine: HFSampler) -> Answers:
    """The answers of the engine in this process."""
    result = answers(engine)
    assert len({drawn[-1].text for row in result for drawn, _ in row}) > 20, "the texts tell problems and systems apart"
    return result


@pytest.mark.slow
def test_a_url_gives_the_completions_of_the_engine_in_this_process(engine: HFSampler, here: Answers) -> None:
    assert over_http(engine, ids=True) == here


def test_where_only_text_can_be_sent_the_plain_prompt_still_reads_the_same(engine: HFSampler, here: Answers) -> None:
    """Without the cascades: at the edges of a quote a tokenizer may merge what we splice."""
    assert over_http(engine, ids=False)[:3] == here[:3]


def test_ids_go_with_the_ends_of_a_turn_and_without_the_servers_own_sampling() -> None:
    class Ids(Words):
        stop = frozenset({9, 4})

        def render(self, prompt: Prompt) -> Rendered:
            return Rendered((1, 2, 3), False)

        def text(self, ids: Any) -> str:
            return ""

    seen: list[Any] = []
    drawn = {
        "choices": [{"token_ids": [9], "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }

    def answer(path: str, body: Any) -> tuple[int, Any]:
        seen.append(body)
        return 200, {"data": [{"id": "the-base"}]} if body is None else drawn

    with server(answer) as url:
        made = OpenAISampler(url, "the-base", escape=escape, renderer=Ids())  # type: ignore[arg-type]
        made.check()
        asyncio.run(made.sample(Request(Prompt((Message("user", ("x",)),)), BASE, 7)))
        made.close()
    assert seen[-1]["stop_token_ids"] == [4, 9]
    assert NEUTRAL.items() <= seen[-1].items()
