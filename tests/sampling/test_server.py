"""The sampler over HTTP against a small server that speaks vLLM's words, and the addresses it refuses."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agon.engine import vllm
from agon.engine.vllm import Draw, VLLMSampler
from agon.engine.vllm_http import ServerEngine, check_address
from agon.errors import ConfigError, EngineError
from agon.types import BASE, Message, Policy, Prompt, Request, Sampling

from .fake import tokenizer


class Server(ThreadingHTTPServer):
    """Remembers what it was asked; refuses a name that it knows, as vLLM does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.adapters: dict[str, str] = {}
        self.ever: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.failures: list[int] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        card = {"id": "the-base", "max_model_len": 640}
        answers = {"/health": "", "/metrics": "vllm:generation_tokens_total{} 3.0\nvllm:prompt_tokens_total{} 4.0\n"}
        self.answer(200, answers.get(self.path, {"data": [card]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        getattr(self, self.path.rsplit("/", 1)[-1])(body)

    def load_lora_adapter(self, body: dict[str, Any]) -> None:
        if body["lora_name"] in self.server.adapters:
            return self.answer(400, {"error": "already loaded"})
        if not Path(body["lora_path"]).is_dir():
            return self.answer(404, {"error": "no such folder"})
        self.server.adapters[body["lora_name"]] = body["lora_path"]
        self.server.ever.append(body["lora_name"])
        return self.answer(200, "Success")

    def unload_lora_adapter(self, body: dict[str, Any]) -> None:
        del self.server.adapters[body["lora_name"]]
        self.answer(200, "Success")

    def completions(self, body: dict[str, Any]) -> None:
        self.server.asked.append(body)
        if self.server.failures:
            return self.answer(self.server.failures.pop(), {"error": "broken"})
        ids = [5] * body["max_tokens"]
        choice = {"token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}, "finish_reason": "length"}
        return self.answer(200, {"choices": [choice]})

    def answer(self, status: int, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(vllm, "GRACE", 0.0)
    tokenizer().save_pretrained(tmp_path / "base")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "adapter_config.json").write_text("{}")
    return tmp_path


def connect(server: Server, base: Path) -> VLLMSampler:
    return VLLMSampler(str(base / "base"), ServerEngine(f"http://127.0.0.1:{server.server_port}/v1", ready=2))


def test_ids_go_in_and_out_and_every_setting_is_said_aloud(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Policy.A, "a@0-x", base / "one")
    request = Request(Prompt((Message("user", ("Count.",)),)), Policy.A, 7, Sampling(0.9, 1.0, 4))
    completion = asyncio.run(sampler.sample(request))
    sampler.close()
    asked = server.asked[0]
    assert completion.version == "a@0-x"
    assert completion.tokens.completion_ids == (5,) * 4
    assert completion.tokens.logprobs == (-0.5,) * 4
    assert tuple(asked["prompt"]) == completion.tokens.prompt_ids
    assert (asked["seed"], asked["temperature"], asked["top_k"], asked["repetition_penalty"]) == (7, 0.9, 0, 1.0)
    assert asked["model"].startswith("a@0-x+")
    assert server.adapters == {}, "a closed sampler leaves no adapter behind"


def test_a_resumed_run_never_reuses_a_name_on_a_live_server(server: Server, base: Path) -> None:
    for _ in range(2):
        sampler = connect(server, base)
        sampler.publish(Policy.A, "a@0-x", base / "one")
        sampler.close()
    assert len(set(server.ever)) == 2


def test_the_base_is_asked_for_by_its_own_name(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.draw_all([Draw((1, 2), BASE, 0, Sampling(max_tokens=2))])
    sampler.close()
    assert server.asked[0]["model"] == "the-base"
    assert sampler.engine.context == 640


def test_a_servers_failure_is_retried_with_the_same_versions(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Policy.A, "a@0-x", base / "one")
    server.failures = [500, 503]
    drawn = sampler.draw_all([Draw((1, 2), "a@0-x", 3, Sampling(max_tokens=2))])
    sampler.close()
    assert drawn[0].ids == (5, 5)
    assert [asked["seed"] for asked in server.asked] == [3, 3, 3]


def test_a_refusal_is_an_error_with_a_fix(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    server.failures = [400]
    with pytest.raises(EngineError, match="400") as refused:
        sampler.draw_all([Draw((1, 2), BASE, 0, Sampling(max_tokens=2))])
    sampler.close()
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" in refused.value.fix


def test_a_server_that_is_not_there_is_said_in_time(base: Path) -> None:
    with pytest.raises(EngineError, match="no vLLM server answers"):
        VLLMSampler(str(base / "base"), ServerEngine("http://127.0.0.1:9", ready=0.2))


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000/v1", "http://[::1]:8000"])
def test_this_machine_is_always_allowed(url: str) -> None:
    check_address(url, None)


def test_other_machines_need_their_network_named() -> None:
    with pytest.raises(ConfigError, match="neither this machine") as refused:
        check_address("http://10.1.2.3:8000", None)
    assert "sampler.network" in refused.value.fix
    with pytest.raises(ConfigError, match="neither this machine"):
        check_address("http://10.1.2.3:8000", "192.168.0.0/16")
    check_address("http://10.1.2.3:8000", "10.0.0.0/8")
    with pytest.raises(ConfigError, match="not an address"):
        check_address("localhost", None)
