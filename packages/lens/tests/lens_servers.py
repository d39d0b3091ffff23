"""A server that answers as a vLLM server with the worker extension does; `fault` is what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def adapter(folder: Path, fill: float = 1.0, dtype: str = "F32") -> Path:
    """An adapter as PEFT saves one: a config, and one tensor of safetensors."""
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text('{"r": 2}')
    body = struct.pack("<8f", *[fill] * 8) if dtype == "F32" else struct.pack("<8e", *[fill] * 8)
    header = json.dumps({"lora_A": {"dtype": dtype, "shape": [8], "data_offsets": [0, len(body)]}}).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + body)
    return folder


class Engine:
    """Serves a base and adapters: which file each name really has, and what the server is able to do."""

    def __init__(self, held: dict[str, Path], *, fault: str = "", attests: bool = True, loads: bool = True) -> None:
        self.held, self.fault, self.attests, self.loads = dict(held), fault, attests, loads
        self.asked: list[str] = []
        self.denied, self.status = "", 403

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append(path)
        if path == self.denied:
            return self.status, "a proxy"
        if path == "/v1/models":
            return 200, {"data": [{"id": name} for name in ("base", *self.held)]}
        if path == "/collective_rpc":
            if not self.attests:
                return (404, {"detail": "Not Found"}) if self.fault != "no extension" else (500, "no attest")
            name, _, digest = body["args"]
            same = hashlib.sha256((self.held[name] / "adapter_model.safetensors").read_bytes()).hexdigest() == digest
            return 200, {"results": [[] if same else ["model.layers.0.mlp"]]}
        if path == "/v1/load_lora_adapter":
            if not self.loads:
                return 404, {"detail": "Not Found"}
            self.held[body["lora_name"]] = Path(body["lora_path"])
            assert (Path(body["lora_path"]) / "adapter_config.json").is_file()
            return 200, "Success"
        if path == "/v1/unload_lora_adapter":
            del self.held[body["lora_name"]]
            return 200, "Success"
        changed = body["model"] != "base" and self.fault != "ignores"
        token, logprob = ("b", -0.5) if changed else ("a", -0.25)
        found = {"tokens": [token] * 4, "token_logprobs": [logprob] * 4}
        if self.fault == "no logprobs":
            return 200, {"choices": [{"text": "x"}]}
        return 200, {"choices": [{"text": token * 4, "token_ids": [1, 2, 3, 4], "logprobs": found}]}


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The address of the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body: Any) -> None:
            code, value = engine.answer(self.path, body)
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        made.server_close()
