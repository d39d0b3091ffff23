"""Any OpenAI-compatible URL: the verdicts of the engine in this process, and no hang when a server misbehaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.data.tabletop import problems as tabletop
from agon.engine import openai
from agon.engine.openai import OpenAISampler, from_chat
from agon.engine.tiny.checkpoint import tiny_base
from agon.errors import EngineError
from agon.eval.cascade import Seat, Table, hold
from agon.game.peek import escape
from agon.types import BASE, Message, Policy, Problem, Prompt, Quote, Request, Sampling
from agon.verify import load_verifier
from tests.engine.serving import VERSIONS, adapters, server, serving

ANSWER = {
    "choices": [{"message": {"content": "<think>t</think>s <answer>4</answer>"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5},
}


def sampler(url: str, **options: Any) -> OpenAISampler:
    return OpenAISampler(url, "the-base", escape=escape, renderer=None, **options)


def ask(url: str, words: tuple[str | Quote, ...] = ("Count.",), **options: Any) -> Any:
    made = sampler(url, **options)
    try:
        return asyncio.run(made.sample(Request(Prompt((Message("user", words),)), None, 7, Sampling(0.6, 0.95, 9))))
    finally:
        made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAISampler, "_wait", lambda *_: None)


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


def test_failures_of_the_line_are_tried_again(quick: None) -> None:
    codes = iter([503, 429, 500])
    with server(lambda path, body: (next(codes, 200), ANSWER)) as url:
        assert ask(url).text.endswith("<answer>4</answer>")


@pytest.mark.parametrize(("code", "told"), [(400, "no such model"), (401, "no such model"), (503, "no such model")])
def test_a_refusal_is_told_with_the_servers_words(quick: None, code: int, told: str) -> None:
    asked = 0

    def answer(path: str, body: Any) -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        return code, {"error": told}

    with server(answer) as url, pytest.raises(EngineError, match=told):
        ask(url)
    assert asked == (openai.TRIES if code == 503 else 1)


def test_a_server_that_never_answers_is_given_up(quick: None) -> None:
    began = time.monotonic()
    with (
        server(lambda path, body: (time.sleep(1), (200, ANSWER))[1]) as url,
        pytest.raises(EngineError, match="answer"),
    ):
        ask(url, timeout=0.05)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(EngineError, match="not the address"):
        sampler(url)


@pytest.mark.parametrize("value", [b"no json", [], {"choices": []}, {"choices": [{"message": {}}]}])
def test_what_is_no_answer_is_an_error_of_the_engine(quick: None, value: Any) -> None:
    with server(lambda path, body: (200, value)) as url, pytest.raises(EngineError):
        ask(url)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_completion_that_was_broken_off_is_drawn_again(quick: None, reason: str) -> None:
    answers = [message("half of", finish=reason), message(None, finish=reason), ANSWER]
    with server(lambda path, body: (200, answers.pop(0))) as url:
        assert ask(url).text == ANSWER["choices"][0]["message"]["content"]
    with server(lambda path, body: (200, message("half of", finish=reason))) as url, pytest.raises(EngineError):
        ask(url)


def message(content: str | None, reasoning: str | None = None, finish: str = "stop") -> Any:
    told = {"content": content, "reasoning_content": reasoning}
    return {"choices": [{"message": told, "finish_reason": finish}], "usage": ANSWER["usage"]}


def test_reasoning_that_came_apart_is_put_back() -> None:
    assert from_chat(message("s", "t"), BASE).text == "<think>t</think>s"
    assert from_chat(message(None, "t", "length"), BASE).text == "<think>t"
    opened = from_chat(message("t</think>s"), BASE)
    assert (opened.text, opened.opened) == ("t</think>s", True)
    assert not from_chat(message("<think>t</think>s"), BASE).opened


def test_models_that_are_not_served_are_named() -> None:
    with server(lambda path, body: (200, {"data": [{"id": "the-base"}, {"id": "mine"}]})) as url:
        made = sampler(url)
        made.check()
        made.publish(Policy.A, "a@000001-x", Path())
        with pytest.raises(EngineError, match=r"a@000001-x \(for a@000001-x\); it serves the-base, mine"):
            made.check()
        made.rename("a@000001-x", "mine")
        made.check()


# -- the same verdicts as in this process -----------------------------------------------------------------------------

GREEDY = Sampling(0.0, 1.0, 96)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The tiny base in float32 with two adapters that change what it says."""
    from agon.engine.hf import HFSampler

    made = HFSampler(str(tiny_base()), dtype="float32")
    for policy, folder in adapters(tmp_path_factory.mktemp("adapters")).items():
        made.publish(policy, VERSIONS[policy], folder)
    yield made
    made.close()


def problems() -> list[Problem]:
    return tabletop.problems("chain", 3, 8, seed=1)


A, B = Seat(Policy.A), Seat(Policy.B)
SYSTEMS = [Seat(None), A, B, (A, B), (B, A)]


def held(at: Any) -> list[list[Any]]:
    with load_verifier("math", workers=1) as verify:
        return asyncio.run(hold(problems(), SYSTEMS, Table(at, verify, GREEDY, max_peek_tokens=64)))


def over(engine: Any, ids: bool) -> list[list[Any]]:
    """The evaluation over HTTP."""
    with serving(engine, ids) as url:
        there = OpenAISampler(url, "tiny", escape=escape, renderer=engine.renderer.inner)
        for policy, version in VERSIONS.items():
            there.publish(policy, version, Path())
        there.check()
        assert there.ids is ids
        found = held(there)
        there.close()
    return found


@pytest.fixture(scope="module")
def here(engine: Any) -> list[list[Any]]:
    """The evaluation in this process."""
    found = held(engine)
    assert {trial.final.verdict.correct for row in found for trial in row} == {True, False}, "else it says nothing"
    return found


def alike(one: list[Any], two: list[Any]) -> None:
    assert [t.final.verdict for t in one] == [t.final.verdict for t in two]
    assert [t.final.completion.text for t in one] == [t.final.completion.text for t in two]
    assert [t.final.completion.version for t in one] == [t.final.completion.version for t in two]
    assert [t.peek for t in one] == [t.peek for t in two]


def test_a_url_gives_the_verdicts_of_the_engine_in_this_process(engine: Any, here: Any) -> None:
    for one, two in zip(here, over(engine, ids=True), strict=True):
        alike(one, two)


def test_where_only_text_can_be_sent_the_plain_prompt_still_reads_the_same(engine: Any, here: Any) -> None:
    """The cascade is left out: at the edges of a quote a tokenizer may merge what we splice."""
    there = over(engine, ids=False)
    for one, two in zip(here[:3], there[:3], strict=True):
        alike(one, two)
