"""Does an engine hold the adapter that you train? Three questions to a running server, over HTTP alone.

- **attest**: a vLLM server whose worker has the extension compares the slot of an adapter with your file, to the bit.
  It finds an adapter that was never delivered, is one step old, was swapped or overwritten.
- **probe**: an adapter with large random weights must change what the server writes. It finds an engine that ignores
  adapters. It needs a vLLM server that loads adapters at run time.
- **score**: the server's log-probs of what it draws are compared with the learner's. It works with every
  OpenAI-compatible server that returns log-probs, and finds what changes them: a different base or policy, not one
  optimizer step. Without adapters it compares the one model that the server has, such as merged weights.

Attesting needs VLLM_SERVER_DEV_MODE=1 and `--worker-extension-cls agon.engine.vllm.worker.StrictAdapters`; the probe
VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Both belong on a loopback address: whoever reaches such a server can make it read
files. Adapters are folders as PEFT saves them, which the server must see under the same path.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
import tempfile
import urllib.error
import urllib.request
import uuid
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

from agon_lens.errors import LensError

WEIGHTS = "adapter_model.safetensors"
EXTENSION = "agon.engine.vllm.worker.StrictAdapters"
LIMIT = 0.2
"""Nats per token that rounding in bfloat16 explains."""
PROMPTS = tuple(f"Count on from {n * 37 + 11}: " + " ".join(str(n * 37 + k) for k in range(24)) for n in range(8))
"""What is asked; any text does."""
DRAWN = 16
"""Tokens drawn for each prompt."""
SECONDS = 120.0
SHOWN = 3
SPREAD = 0.5
"""Standard deviation of the weights of a probe: far beyond any trained adapter."""
KEY = "AGON_API_KEY"
LOCAL = ("localhost", "127.0.0.1", "::1")
DENIED = (401, 403, 407, 502, 503, 504)
"""Status codes of a proxy, or of a server that lets nobody in: they say nothing about what the server can do."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a server drew: a text, its tokens by name, their ids where the server says them, and their log-probs."""

    prompt: str
    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


Score = Callable[[str | None, Sequence[Draw]], Sequence[Sequence[float]]]
"""The learner's log-probs of draws under an adapter, by its name, or under the base: one list for each draw."""


@dataclass(slots=True)
class Report:
    """What was asked and found. `faults` is empty for an engine that holds what it should."""

    faults: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Questions that this server cannot answer, with what it would need."""
    gaps: dict[str, float] = field(default_factory=dict)
    """Distances of log-probs from the learner's, in nats per token."""

    @property
    def good(self) -> bool:
        return not self.faults


def check(
    url: str,
    adapters: Mapping[str, str | Path],
    *,
    base: str | None = None,
    score: Score | None = None,
    limit: float = LIMIT,
    probe: bool = True,
) -> Report:
    """Ask a server about adapters by the names that it serves them under; `base` is what it calls its base model."""
    server, report = Server(url), Report()
    folders = {name: _adapter(Path(folder)) for name, folder in adapters.items()}
    served = server.models()
    base = base or next((name for name in served if name not in folders), None)
    if base is None:
        raise LensError(f"{url} serves no model", fix="name the base as the server calls it: --base NAME")
    missing = [name for name in folders if name not in served]
    report.faults += [f"{name} is not served: the adapter was never delivered" for name in missing]
    known = {name: folder for name, folder in folders.items() if name not in missing}
    _attest(server, known, report)
    if probe and folders:
        _probe(server, base, next(iter(folders.values())), report)
    if score is not None:
        for name in (base, *known):
            draws = [server.draw(name, prompt) for prompt in PROMPTS]
            gap = distance(draws, score(None if name == base else name, draws))
            report.gaps[name] = gap
            report.checked.append(f"log-probs of {name}")
            if not gap <= limit:
                what = "different weights, dtype or unprocessed log-probs" if name == base else "a different policy"
                report.faults.append(f"{name} is {gap:.2g} nats per token from the learner's (limit {limit:g}): {what}")
    return report


def distance(draws: Sequence[Draw], scores: Sequence[Sequence[float]]) -> float:
    """Mean absolute difference of log-probs, in nats per token."""
    for draw, scored in zip(draws, scores, strict=True):
        if len(draw.logprobs) != len(scored):
            message = f"the learner scored {len(scored)} tokens where the server drew {len(draw.logprobs)}"
            raise LensError(message, fix="score draw.ids where the server gives ids, else the text with its tokenizer")
    return fmean(
        abs(a - b)
        for draw, scored in zip(draws, scores, strict=True)
        for a, b in zip(draw.logprobs, scored, strict=True)
    )


def _adapter(folder: Path) -> Path:
    if not (folder / WEIGHTS).is_file():
        fix = "name a folder as PEFT's save_pretrained writes it"
        raise LensError(f"{folder} holds no {WEIGHTS}", fix=fix)
    return folder.resolve()


def _attest(server: Server, adapters: Mapping[str, Path], report: Report) -> None:
    """Compare slots with files, on a server that can."""
    for name, folder in adapters.items():
        digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
        status, reply = server.ask("/collective_rpc", {"method": "attest", "args": [name, str(folder), digest]})
        if status == 404:
            report.skipped.append("attest: start the server with VLLM_SERVER_DEV_MODE=1")
            return
        if status == 500:
            report.skipped.append(f"attest: start the server with --worker-extension-cls {EXTENSION}")
            return
        differing = _differing(status, reply)
        report.checked.append(f"slot of {name}")
        if differing:
            more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
            said = ", ".join(differing[:SHOWN])
            report.faults.append(f"the engine does not hold {name} as {folder.name} has it: {said}{more}")


def _differing(status: int, reply: Any) -> list[str]:
    """What differs, of all workers."""
    results = reply.get("results") if isinstance(reply, dict) else None
    if status != 200 or not isinstance(results, list) or not all(isinstance(each, list) for each in results):
        fix = f"check that the server has the worker extension {EXTENSION}"
        raise LensError(f"/collective_rpc answered {status}: {str(reply)[:200]}", fix=fix)
    return list(dict.fromkeys(str(layer) for each in results for layer in each))


def _probe(server: Server, base: str, pattern: Path, report: Report) -> None:
    """Load an adapter with large random weights, and see whether the server writes anything else with it."""
    name = f"canary-{uuid.uuid4().hex[:8]}"
    with _probe_folder(pattern) as folder:
        status, reply = server.ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        if status in (404, 405):
            report.skipped.append("probe: start the server with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1")
            return
        if status == 400:
            report.skipped.append(f"probe: the server refused an adapter of this shape: {str(reply)[:200]}")
            return
        if status != 200:
            raise LensError(f"/v1/load_lora_adapter answered {status}: {str(reply)[:200]}", fix="see the server's log")
        try:
            pairs = [(server.draw(base, p, 0.0), server.draw(name, p, 0.0)) for p in PROMPTS[:3]]
        finally:
            with suppress(LensError):
                server.ask("/v1/unload_lora_adapter", {"lora_name": name})
    report.checked.append("whether adapters are used")
    if all(one.tokens == two.tokens for one, two in pairs):
        report.faults.append("the engine ignores adapters: large random weights do not change what it writes")


@contextmanager
def _probe_folder(pattern: Path) -> Iterator[Path]:
    """An adapter of the shape of `pattern` with large random weights, beside it: there the server sees it too."""
    with tempfile.TemporaryDirectory(prefix=".canary-", dir=pattern.parent) as scratch:
        folder = Path(scratch)
        shutil.copy(pattern / "adapter_config.json", folder)
        data = (pattern / WEIGHTS).read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        body, generator = bytearray(data[8 + length :]), random.Random(0)
        normal = array("f", [generator.gauss(0, SPREAD) for _ in range(4096)]).tobytes()
        halves = b"".join(normal[k + 2 : k + 4] for k in range(0, len(normal), 4))  # bfloat16: the upper two bytes
        float16 = struct.pack("<4096e", *array("f", normal))
        blocks = {"F32": normal, "BF16": halves, "F16": float16}
        for name, tensor in header.items():
            if name != "__metadata__":
                if (block := blocks.get(tensor["dtype"])) is None:
                    raise LensError(f"{name} has the type {tensor['dtype']}", fix="save adapters in a floating type")
                start, end = tensor["data_offsets"]
                body[start:end] = (block * ((end - start) // len(block) + 1))[: end - start]
        (folder / WEIGHTS).write_bytes(data[: 8 + length] + bytes(body))
        folder.chmod(0o755)  # the server may run as somebody else
        yield folder


class Server:
    """An OpenAI-compatible server. A key in AGON_API_KEY is sent to it."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise LensError(f"{url} is not an address", fix="write it like http://127.0.0.1:8000")
        self.url = url.rstrip("/").removesuffix("/v1")
        # a proxy of the environment does not reach this machine's own servers
        proxies = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in LOCAL else []
        self._opener = urllib.request.build_opener(*proxies)

    def models(self) -> list[str]:
        """The names that it serves."""
        status, reply = self.ask("/v1/models", None)
        data = reply.get("data") if isinstance(reply, dict) else None
        if status != 200 or not isinstance(data, list):
            message = f"{self.url}/v1/models answered {status}"
            raise LensError(message, fix="name the address of an OpenAI-compatible server")
        return [str(each.get("id")) for each in data if isinstance(each, dict)]

    def draw(self, model: str, prompt: str, temperature: float = 1.0) -> Draw:
        """A completion with the log-probs of its tokens."""
        body = {"model": model, "prompt": prompt, "max_tokens": DRAWN, "temperature": temperature, "logprobs": 1}
        status, reply = self.ask("/v1/completions", body | {"seed": 7, "return_token_ids": True})
        if status == 400:  # a server that knows no other fields than OpenAI's
            status, reply = self.ask("/v1/completions", body)
        try:
            choice = reply["choices"][0]
            found = choice["logprobs"]
            tokens, logprobs = tuple(map(str, found["tokens"])), tuple(map(float, found["token_logprobs"]))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"/v1/completions answered {status} without log-probs: {str(reply)[:200]}"
            raise LensError(message, fix="use a server whose /v1/completions returns logprobs") from error
        return Draw(prompt, str(choice.get("text") or ""), tokens, tuple(choice.get("token_ids") or ()), logprobs)

    def ask(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        """The status and value of one reply; text that is not JSON is returned as it is."""
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(KEY):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with self._opener.open(request, timeout=SECONDS) as reply:
                status, text = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        except (OSError, ValueError) as error:
            message = f"{self.url} does not answer: {getattr(error, 'reason', error)}"
            raise LensError(message, fix="start the server, or name its address") from error
        if status in DENIED:
            message = f"{self.url}{path} answered {status}: {text[:200].decode('utf-8', 'replace').strip()}"
            fix = f"put the server's key in {KEY}, or see which proxy is between (HTTP_PROXY, NO_PROXY)"
            raise LensError(message, fix=fix)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode("utf-8", "replace")
