"""A server over the tiny base that speaks vLLM's words, with both adapters, and misbehaves on demand."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import _lib  # noqa: F401 - finds `tests`
from agon.engine.shipped import folder_of
from tests.engine.vllm.test_server import GARBLED, MALFORMED, METRICS, completion

AT_START = ("it serves nothing", "its models are a page", "its counters are garbled")
TRANSPORT = (
    *("status 500", "status 429", "a redirect", "a closed connection", "half a body", "an aborted completion"),
    *("no reply", "no reply behind garbled counters"),
)
KINDS = (*AT_START, *MALFORMED, *TRANSPORT)
"""Every way to misbehave: from the start, in the body of a completion, on the way."""
SILENCE = 60.0


class FaultyServer(ThreadingHTTPServer):
    """Serves as vLLM does, until `armed()` says that the fault is due."""

    request_queue_size = 256  # the canary asks for many completions at once

    daemon_threads = True

    def __init__(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        super().__init__(("127.0.0.1", 0), _Handler)
        self.base = AutoModelForCausalLM.from_pretrained(folder_of("agon:tiny"), dtype=torch.float32).eval()
        self.peft: Any = None
        self.slots: dict[str, str] = {}
        self.numbers = itertools.count()
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.tokens = 0
        self.fault = ""
        self.armed: Callable[[], bool] = lambda: True
        self.sent = 0
        """Faulty replies so far."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no fault of what is measured."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def has(self, *faults: str) -> bool:
        return self.fault in faults and self.armed()

    def load(self, name: str, folder: str) -> None:
        from peft import PeftModel

        with self.lock:
            slot = f"slot{next(self.numbers)}"
            if self.peft is None:
                self.peft = PeftModel.from_pretrained(self.base, folder, adapter_name=slot)
            else:
                self.peft.load_adapter(folder, adapter_name=slot)
            self.peft.eval()
            self.slots[name] = slot

    def unload(self, name: str) -> bool:
        with self.lock:
            slot = self.slots.pop(name, None)
            if slot and len(self.peft.peft_config) > 1:  # PEFT cannot lose its last one
                self.peft.delete_adapter(slot)
            return slot is not None

    def draw(self, body: dict[str, Any]) -> tuple[list[int], list[float], str]:
        import torch

        slot = self.slots.get(body["model"])
        if slot:
            self.peft.set_adapter(slot)
        model = self.peft or self.base
        bare = nullcontext() if slot or self.peft is None else self.peft.disable_adapter()
        with bare, torch.inference_mode():
            return _sample(model, body)


def _sample(model: Any, body: dict[str, Any]) -> tuple[list[int], list[float], str]:
    """One completion, token by token, with the log-probs of the distribution it is drawn from."""
    import torch

    generator = torch.Generator().manual_seed(body["seed"] % 2**31)
    ids, logprobs, past, fed = [], [], None, torch.tensor([body["prompt"]])
    for _ in range(body["max_tokens"]):
        out = model(input_ids=fed, past_key_values=past, use_cache=True)
        past = out.past_key_values
        chances = (out.logits[0, -1].float() / max(body["temperature"], 1e-6)).softmax(-1)
        ordered, order = chances.sort(descending=True)
        kept = order[(ordered.cumsum(0) - ordered) < body["top_p"]]
        chances = torch.zeros_like(chances).index_copy(0, kept, chances[kept])
        chances = chances / chances.sum()
        token = int(torch.multinomial(chances, 1, generator=generator))
        ids.append(token)
        logprobs.append(min(float(chances[token].log()), 0.0))
        if token in body["stop_token_ids"]:
            return ids, logprobs, "stop"
        fed = torch.tensor([[token]])
    return ids, logprobs, "length"


class _Handler(BaseHTTPRequestHandler):
    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics":
            garbled = self.server.has("its counters are garbled", "no reply behind garbled counters")
            counted = f"vllm:generation_tokens_total{{}} {self.server.tokens}.0\n"
            return self._reply(200, GARBLED[0] if garbled else METRICS + counted)
        if self.path == "/v1/models":
            odd = {"it serves nothing": {"data": []}, "its models are a page": "<html>sign in</html>"}
            usual = {"data": [{"id": "the-base", "max_model_len": 512}]}
            return self._reply(200, odd[self.server.fault] if self.server.has(*odd) else usual)
        return self._reply(200, "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/load_lora_adapter"):
            self.server.load(body["lora_name"], body["lora_path"])
            return self._reply(200, "ok")
        if self.path.endswith("/unload_lora_adapter"):
            return self._reply(200 if self.server.unload(body["lora_name"]) else 404, "ok")
        if not self.path.startswith("/v1/"):  # no development endpoints
            return self._reply(404, {"error": "unknown"})
        if body["top_p"] >= 0.01 and self.server.has(*MALFORMED, *TRANSPORT):
            self.server.sent += 1
            return self._misbehave()
        if body["model"] not in ("the-base", *self.server.slots):
            return self._reply(404, {"error": "unknown"})
        with self.server.lock:
            ids, logprobs, finish = self.server.draw(body)
            self.server.tokens += len(ids) + len(body["prompt"])
        return self._reply(200, completion(token_ids=ids, logprobs={"token_logprobs": logprobs}, finish_reason=finish))

    def _misbehave(self) -> None:
        fault = self.server.fault
        if fault in MALFORMED:
            return self._reply(200, MALFORMED[fault])
        if fault.startswith("status"):
            return self._reply(int(fault.split()[1]), {"error": "no"})
        if fault.startswith("no reply"):
            self.server.ended.wait(SILENCE)
        if fault == "an aborted completion":
            return self._reply(200, completion(finish_reason="abort"))
        if fault == "a redirect":
            return self._reply(302, "", [("Location", "http://127.0.0.1:9/")])
        if fault == "half a body":
            self._reply(200, '{"cho', [("Content-Length", "1000")])
        self.close_connection = True
        return None

    def _reply(self, status: int, body: Any, headers: Sequence[tuple[str, str]] = ()) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in headers or [("Content-Length", str(len(data)))]:
            self.send_header(name, value)
        if headers and headers[0][0] != "Content-Length":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None: ...


@contextmanager
def faulty_server() -> Iterator[FaultyServer]:
    """A server in a thread."""
    server = FaultyServer()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
