"""The sampler over HTTP against a small server that speaks vLLM's words, and the addresses it refuses."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw
from agon.engine.vllm import server as module
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine, check_address
from agon.errors import ConfigError, EngineError
from agon.types import BASE, Message, Policy, Prompt, Request, Sampling, Version
from tests.engine.helpers.engines import adapter_folders, save_tokenizer

IN_VAIN = 2.0
"""Seconds to wait for what never comes: time enough for a busy machine to give the reason."""
METRICS = "vllm:generation_tokens_total{} 3.0\nvllm:prompt_tokens_total{} 4.0\n"


class Server(ThreadingHTTPServer):
    """Remembers what it was asked; refuses a name that it knows, or does not know, as vLLM does."""

    daemon_threads = True
    allow_reuse_port = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.adapters: dict[str, str] = {}
        self.ever: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.failures: list[int] = []
        self.finish = ["length"]
        self.metrics: tuple[int, str] = 200, METRICS
        self.raw, self.stuck = False, ""
        self.models: Any = {"data": [{"id": "the-base", "max_model_len": 640}]}
        self.hangs = False
        self.denied: tuple[str, int] = "", 403
        """A path that a proxy in front of it answers, and how."""
        self.rpc: int | None = None
        """What calls of workers answer; None: what differs between an adapter and its folder's name."""
        self.replies: list[Any] = []
        """What is sent instead of completions; the last one is sent for ever."""

    def go(self) -> Server:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        answers: dict[str, tuple[int, Any]] = {"/health": (200, ""), "/metrics": self.server.metrics}
        if self.path == self.server.stuck:
            threading.Event().wait(20)
        self.answer(*answers.get(self.path, (200, self.server.models)))

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
        known = self.server.adapters.pop(body["lora_name"], None)
        self.answer(200, "Success") if known else self.answer(404, {"error": "cannot be found"})

    def collective_rpc(self, body: dict[str, Any]) -> None:
        name, folder, digest = body["args"]
        known = self.server.adapters.get(name)
        same = [] if known == folder else [f"{name} {digest}"]
        self.answer(self.server.rpc or 200, {"results": [same, []]})

    def completions(self, body: dict[str, Any]) -> None:
        if body["top_p"] < 0.01:  # one token is left, so that its processed log-prob is 0
            return self.drawn(body["max_tokens"], -0.5 if self.server.raw else 0.0, "length")
        self.server.asked.append(body)
        if self.server.hangs:
            threading.Event().wait(20)
        if replies := self.server.replies:
            return self.answer(200, replies.pop(0) if len(replies) > 1 else replies[0])
        if self.server.failures:
            return self.answer(self.server.failures.pop(), {"error": "broken"})
        if body["model"] not in {"the-base", *self.server.adapters}:
            return self.answer(404, {"error": "does not exist"})
        finish = self.server.finish.pop() if len(self.server.finish) > 1 else self.server.finish[0]
        return self.drawn(body["max_tokens"], -0.5, finish)

    def drawn(self, count: int, logprob: float, finish: str) -> None:
        logprobs = {"token_logprobs": [logprob] * count}
        self.answer(200, {"choices": [{"token_ids": [5] * count, "logprobs": logprobs, "finish_reason": finish}]})

    def answer(self, status: int, body: Any) -> None:
        path, denied = self.server.denied
        status = denied if self.path == path else status
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server().go()
    yield made
    made.end()


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    monkeypatch.setattr(module, "POLL", 0.05)
    save_tokenizer(tmp_path / "base")
    return adapter_folders(tmp_path, "one", "two", "three", "four")


def connect(server: Server, base: Path, ready: float = 60.0) -> VLLMSampler:
    engine = ServerEngine(f"http://127.0.0.1:{server.server_port}/v1", ready=ready)
    return VLLMSampler(str(base / "base"), Fleet(engine))


def test_ids_go_in_and_out_and_every_setting_is_said_aloud(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Version("a@0-x"), base / "one")
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
        sampler.publish(Version("a@0-x"), base / "one")
        sampler.close()
    assert len(set(server.ever)) == 2


def test_the_base_is_asked_for_by_its_own_name(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.draw_all([Draw((1, 2), BASE, 0, Sampling(max_tokens=2))])
    sampler.close()
    assert server.asked[0]["model"] == "the-base"
    assert sampler.fleet.members[0].engine.context == 640


def test_a_servers_failure_is_retried_with_the_same_versions(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Version("a@0-x"), base / "one")
    server.failures = [500, 503]
    drawn = sampler.draw_all([Draw((1, 2), Version("a@0-x"), 3, Sampling(max_tokens=2))])
    sampler.close()
    assert drawn[0].ids == (5, 5)
    assert [asked["seed"] for asked in server.asked] == [3, 3, 3]


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_a_completion_that_a_server_broke_off_is_drawn_again(server: Server, base: Path, finish: str) -> None:
    sampler = connect(server, base)
    server.finish = ["stop", finish]
    drawn = sampler.draw_all([Draw((1, 2), BASE, 3, Sampling(max_tokens=2))])
    sampler.close()
    assert drawn[0].finish == "stop"
    assert ([asked["seed"] for asked in server.asked], sampler.restarts) == ([3, 3], 1)


def completion(**fault: Any) -> Any:
    """A reply to a request for two tokens, with a fault."""
    choice = {"token_ids": [5, 5], "logprobs": {"token_logprobs": [-0.5, -0.5]}, "finish_reason": "length"}
    return {"choices": [choice | fault]}


MALFORMED = {
    "half a line": '{"choices": [',
    "the page of a proxy": "<html>bad gateway</html>",
    "null": "null",
    "no choice": {"choices": []},
    "no ids": completion(token_ids=None),
    "ids as texts": completion(token_ids=["a", "b"]),
    "ids as fractions": completion(token_ids=[3.0, 4.0]),
    "an id above the vocabulary": completion(token_ids=[5, 10**6]),
    "an id below zero": completion(token_ids=[5, -5]),
    "no log-probs": completion(logprobs=None),
    "log-probs null": completion(logprobs={"token_logprobs": [None, None]}),
    "a log-prob too few": completion(logprobs={"token_logprobs": [-0.5]}),
    "log-probs not a number": completion(logprobs={"token_logprobs": [float("nan"), -0.5]}),
    "log-probs above zero": completion(logprobs={"token_logprobs": [0.5, -0.5]}),
    "no token": completion(token_ids=[], logprobs={"token_logprobs": []}, finish_reason="stop"),
    "more tokens than asked for": completion(token_ids=[5] * 9, logprobs={"token_logprobs": [-0.5] * 9}),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_reply_is_a_failure_that_is_retried_and_then_stops_the_run(
    server: Server, base: Path, kind: str
) -> None:
    sampler = connect(server, base)
    draws = [Draw((1, 2), BASE, 3, Sampling(max_tokens=2))]
    server.replies = [MALFORMED[kind], completion()]
    assert sampler.draw_all(draws)[0].ids == (5, 5)
    assert sampler.restarts == 1
    server.replies = [MALFORMED[kind]]
    with pytest.raises(EngineError, match="the engine failed 4 times") as stopped:
        sampler.draw_all(draws)
    sampler.close()
    assert "--resume" in stopped.value.fix


@pytest.mark.parametrize("status", [408, 429])
def test_a_server_that_is_busy_is_asked_again(server: Server, base: Path, status: int) -> None:
    sampler = connect(server, base)
    server.failures = [status]
    assert sampler.draw_all([Draw((1, 2), BASE, 3, Sampling(max_tokens=2))])[0].ids == (5, 5)
    sampler.close()


@pytest.mark.parametrize(
    "models", [{"data": []}, "<html>", {"data": [{"id": 3}]}, {"data": [{"id": "x", "max_model_len": 0}]}]
)
def test_a_server_that_cannot_say_what_it_serves_is_waited_for_in_vain(server: Server, base: Path, models: Any) -> None:
    server.models = models
    with pytest.raises(EngineError, match=r"no vLLM server answers.*(cannot be read|serves no model)") as stopped:
        connect(server, base, ready=IN_VAIN)
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" in stopped.value.fix


def test_a_server_of_another_kind_is_refused_at_once(server: Server, base: Path) -> None:
    server.models = {"data": [{"id": "x"}]}
    with pytest.raises(EngineError, match="not a vLLM server"):
        connect(server, base)


GARBLED = [
    "vllm:generation_tokens_total{} abc\n",
    "vllm:prompt_tokens_total NaN\n",
    "vllm:prompt_tokens_total{} +Inf\n",
]


@pytest.mark.parametrize("metrics", GARBLED)
def test_a_server_with_garbled_counters_is_waited_for_in_vain(server: Server, base: Path, metrics: str) -> None:
    server.metrics = 200, metrics
    with pytest.raises(EngineError, match="other than numbers") as stopped:
        connect(server, base, ready=IN_VAIN)
    assert stopped.value.fix


@pytest.mark.parametrize("metrics", GARBLED)
def test_a_server_that_hangs_behind_garbled_counters_is_not_waited_for_without_end(
    server: Server, base: Path, metrics: str
) -> None:
    engine = ServerEngine(f"http://127.0.0.1:{server.server_port}")
    sampler = VLLMSampler(str(base / "base"), Fleet(engine, patience=0.3))
    engine._ready = IN_VAIN
    server.hangs, server.metrics = True, (200, metrics)
    with pytest.raises(EngineError, match="other than numbers"):
        sampler.draw_all([Draw((1, 2), BASE, 3, Sampling(max_tokens=2))])
    sampler.close()


def test_a_server_that_was_started_again_while_idle_gets_its_adapters_back(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Version("b@0-x"), base / "one")
    for step, name in enumerate(("two", "three")):
        sampler.publish(Version(f"a@{step}-x"), base / name)
    server.adapters.clear()
    sampler.publish(Version("a@2-x"), base / "four")
    assert sampler.restarts == 0, "what is to be forgotten may be forgotten"
    sampler.draw_all([Draw((1, 2), Version("b@0-x"), 3, Sampling(max_tokens=2))])
    assert sampler.restarts == 1, "the canary will ask after it"
    assert sorted(Path(path).name for path in server.adapters.values()) == ["four", "one", "three"]
    sampler.close()


def test_a_server_that_goes_away_in_the_middle_of_a_run_is_waited_for(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.publish(Version("a@0-x"), base / "one")
    back = list[Server]()
    with socket.socket() as parked:  # it does not listen: nobody else takes the port meanwhile
        parked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        parked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        parked.bind(("127.0.0.1", server.server_port))
        server.end()
        timer = threading.Timer(0.5, lambda: back.append(Server(server.server_port).go()))
        timer.start()
        drawn = sampler.draw_all([Draw((1, 2), Version("a@0-x"), 3, Sampling(max_tokens=2))])
        timer.join()
    assert (drawn[0].ids, sampler.restarts, len(back[0].adapters)) == ((5, 5), 1, 1)
    sampler.close()
    back[0].end()


def test_a_server_that_stays_away_stops_the_run_in_time(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    sampler.fleet.members[0].engine._ready = 2.0
    server.end()
    with pytest.raises(EngineError, match=r"no vLLM server answers.*does not answer") as stopped:
        sampler.draw_all([Draw((1, 2), BASE, 3, Sampling(max_tokens=2))])
    sampler.close()
    assert "--resume" in stopped.value.fix


def test_a_refusal_is_an_error_with_a_fix(server: Server, base: Path) -> None:
    sampler = connect(server, base)
    server.failures = [400]
    with pytest.raises(EngineError, match="400") as refused:
        sampler.draw_all([Draw((1, 2), BASE, 0, Sampling(max_tokens=2))])
    sampler.close()
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" in refused.value.fix


def test_a_server_that_is_not_there_is_said_in_time(base: Path) -> None:
    with pytest.raises(EngineError, match="no vLLM server answers"):
        VLLMSampler(str(base / "base"), Fleet(ServerEngine("http://127.0.0.1:9", ready=0.2)))


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
def test_a_server_that_hangs_before_it_has_said_what_it_serves_is_said_in_time(
    server: Server, base: Path, path: str
) -> None:
    server.stuck = path
    with pytest.raises(EngineError, match="no vLLM server answers"):
        connect(server, base, ready=IN_VAIN)


@pytest.mark.parametrize("metrics", [(200, "vllm:num_requests_running{} 0.0\n"), (404, "not here")])
def test_a_server_whose_work_cannot_be_watched_is_refused(server: Server, base: Path, metrics: tuple[int, str]) -> None:
    server.metrics = metrics
    with pytest.raises(EngineError, match="counts no tokens") as refused:
        connect(server, base)
    assert "--disable-log-stats" in refused.value.fix


def test_a_server_with_log_probs_of_another_distribution_is_refused(server: Server, base: Path) -> None:
    server.raw = True
    with pytest.raises(EngineError, match="not those of the distribution") as refused:
        connect(server, base)
    assert "processed_logprobs" in refused.value.fix


def test_no_proxy_of_the_environment_comes_between(server: Server, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    connect(server, base).close()


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
    with pytest.raises(ConfigError, match="not a valid URL"):
        check_address("localhost", None)
    with pytest.raises(ConfigError, match="cannot resolve nowhere"):
        check_address("http://nowhere.invalid:8000", None)


@pytest.mark.parametrize("network", ["banana", "10.0.0.1/8", "10.0.0.0/99"])
def test_a_network_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(ConfigError, match=r"sampler\.network") as refused:
        check_address("http://10.1.2.3:8000", network)
    assert "10.0.0.0/8" in refused.value.fix


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="holds a password") as refused:
        check_address("http://user:secret@127.0.0.1:8000", None)
    assert "secret" not in str(refused.value)
    assert "AGON_API_KEY" in refused.value.fix


@pytest.mark.parametrize("status", [None, 404, 500, 503])
def test_a_server_attests_if_it_has_the_extension_and_the_endpoint(
    server: Server, tmp_path: Path, status: int | None
) -> None:
    server.rpc = status
    adapter_folders(tmp_path, "one", "two")

    async def ask() -> list[list[str] | None]:
        engine = ServerEngine(f"http://127.0.0.1:{server.server_port}", ready=IN_VAIN)
        await engine.start()
        await engine.load(Version("a@1-x"), tmp_path / "one")
        answers = [await engine.attest(Version("a@1-x"), tmp_path / name, "5f3c") for name in ("one", "two")]
        await engine.stop()
        return answers

    if status == 503:  # a server that is not ready says nothing about itself
        with pytest.raises(EngineError, match="answered 503"):
            asyncio.run(ask())
    elif status:
        assert asyncio.run(ask()) == [None, None]
    else:
        right, wrong = asyncio.run(ask())
        assert right == []
        assert wrong is not None
        assert wrong[0].startswith("a@1-x+")
        assert wrong[0].endswith(" 5f3c")


@pytest.mark.parametrize("status", [403, 407])
@pytest.mark.parametrize("path", ["/health", "/metrics", "/collective_rpc", "/v1/load_lora_adapter"])
def test_what_a_proxy_denies_is_an_error_at_once_and_no_missing_feature(
    server: Server, tmp_path: Path, path: str, status: int
) -> None:
    server.denied = path, status
    adapter_folders(tmp_path, "one")

    async def ask() -> None:
        engine = ServerEngine(f"http://127.0.0.1:{server.server_port}", ready=IN_VAIN)
        await engine.start()
        await engine.load(Version("a@1-x"), tmp_path / "one")

    with pytest.raises(EngineError, match=f"{path} answered {status}") as refused:
        asyncio.run(ask())
    assert "AGON_API_KEY" in refused.value.fix
    assert f"let {path} through the proxy" in refused.value.fix


def test_a_proxy_that_hides_the_counters_for_a_moment_takes_no_progress_back(server: Server) -> None:
    async def counts() -> tuple[int, int]:
        engine = ServerEngine(f"http://127.0.0.1:{server.server_port}", ready=IN_VAIN)
        await engine.start()
        before = await engine.progress()
        server.denied = "/metrics", 502
        return before, await engine.progress()

    before, hidden = asyncio.run(counts())
    assert before == hidden > 0
