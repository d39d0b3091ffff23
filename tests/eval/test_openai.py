"""Any OpenAI-compatible URL: the verdicts of the engine in this process, and no hang when a server misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agon.data import tabletop
from agon.engine import openai
from agon.engine.openai import OpenAISampler, completion
from agon.engine.tiny import tiny_base
from agon.errors import EngineError
from agon.eval.cascade import Seat, Table, hold
from agon.game.peek import escape
from agon.game.prompts import draft_prompt
from agon.types import BASE, Message, Policy, Problem, Prompt, Quote, Request, Sampling
from agon.verify import load_verifier

Answer = Callable[[str, dict[str, Any] | None], tuple[int, Any]]
ANSWER = {
    "choices": [{"message": {"content": "<think>t</think>s <answer>4</answer>"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5},
}


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """An HTTP server on this machine that answers (path, body) with (code, value)."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._reply(json.loads(self.rfile.read(length)))

        def do_GET(self) -> None:
            self._reply(None)

        def _reply(self, body: dict[str, Any] | None) -> None:
            code, value = answer(self.path, body)
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_port}/v1"
    finally:
        made.shutdown()
        made.server_close()


def sampler(url: str, **options: Any) -> OpenAISampler:
    return OpenAISampler(url, "the-base", escape=escape, clip=lambda text, n: text, **options)


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


def message(content: str | None, reasoning: str | None = None, finish: str = "stop") -> Any:
    told = {"content": content, "reasoning_content": reasoning}
    return {"choices": [{"message": told, "finish_reason": finish}], "usage": ANSWER["usage"]}


def test_reasoning_that_came_apart_is_put_back() -> None:
    assert completion(message("s", "t"), BASE).text == "<think>t</think>s"
    assert completion(message(None, "t", "length"), BASE).text == "<think>t"
    opened = completion(message("t</think>s"), BASE)
    assert (opened.text, opened.opened) == ("t</think>s", True)
    assert not completion(message("<think>t</think>s"), BASE).opened


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

VERSIONS = {Policy.A: "a@000001-one", Policy.B: "b@000001-two"}
GREEDY = Sampling(0.0, 1.0, 96)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The tiny base in float32 with two adapters that change what it says."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from agon.engine.hf import HFSampler

    torch.set_num_threads(1)
    torch.manual_seed(0)
    made = HFSampler(str(tiny_base()), dtype="float32")
    for policy, version in VERSIONS.items():
        base = AutoModelForCausalLM.from_pretrained(tiny_base(), dtype="float32")
        model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.02)
        folder = tmp_path_factory.mktemp(policy.value)
        model.save_pretrained(folder)
        made.publish(policy, version, folder)
    yield made
    made.close()


def foreign(engine: Any, loop: asyncio.AbstractEventLoop) -> Answer:
    """A server as a stranger would write it: its own chat template on the text it was sent, then token ids."""

    def answer(path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        if body is None:
            return 200, {"data": [{"id": name} for name in ("tiny", *VERSIONS.values())]}
        prompt = Prompt(tuple(Message(m["role"], (m["content"],)) for m in body["messages"]))
        version = BASE if body["model"] == "tiny" else body["model"]
        sampling = Sampling(body["temperature"], body["top_p"], body["max_tokens"])
        asked = engine.sample(Request(prompt, None, body["seed"], sampling, version))
        got = asyncio.run_coroutine_threadsafe(asked, loop).result(60)
        usage = {"prompt_tokens": got.prompt_tokens, "completion_tokens": got.generated_tokens}
        choice = {"message": {"role": "assistant", "content": got.text}, "finish_reason": got.finish}
        return 200, {"choices": [choice], "usage": usage}

    return answer


def problems() -> list[Problem]:
    return tabletop.problems("chain", 3, 12, seed=1)


def held(at: Any) -> list[list[Any]]:
    a, b = Seat(Policy.A), Seat(Policy.B)
    with load_verifier("math", workers=1) as verify:
        table = Table(at, verify, GREEDY, max_peek_tokens=64)
        return asyncio.run(hold(problems(), [Seat(None), a, b, (a, b), (b, a)], table))


@pytest.fixture(scope="module")
def both(engine: Any) -> tuple[list[list[Any]], list[list[Any]]]:
    """The same evaluation in this process and over HTTP."""
    here = held(engine)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with server(foreign(engine, loop)) as url:
        there = OpenAISampler(url, "tiny", escape=escape, clip=engine.clip)
        for policy, version in VERSIONS.items():
            there.publish(policy, version, Path())
        there.check()
        over = held(there)
        there.close()
    loop.call_soon_threadsafe(loop.stop)
    return here, over


def test_a_url_gives_the_verdicts_of_the_engine_in_this_process(both: Any) -> None:
    here, over = both
    for one, two in zip(here, over, strict=True):
        assert [t.final.verdict for t in one] == [t.final.verdict for t in two]
        assert [t.final.completion.version for t in one] == [t.final.completion.version for t in two]
        assert [t.peek for t in one] == [t.peek for t in two]
    verdicts = {trial.final.verdict.correct for row in here for trial in row}
    assert verdicts == {True, False}, "a comparison of verdicts that are all alike would say nothing"


def test_it_also_gives_the_same_texts(both: Any) -> None:
    for one, two in zip(*both, strict=True):
        assert [t.final.completion.text for t in one] == [t.final.completion.text for t in two]


def test_the_plain_prompt_reads_the_same_to_a_stranger(engine: Any) -> None:
    prompt = draft_prompt(problems()[0])
    text = Prompt(tuple(Message(m.role, (m.text,)) for m in prompt.messages))
    assert engine.renderer.render(prompt).ids == engine.renderer.render(text).ids
