"""A vLLM server that is already running: token ids in and out over HTTP, adapters loaded by name and path.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve BASE --enable-lora --max-loras 4 --max-cpu-loras 8 \
        --max-lora-rank 16 --logprobs-mode processed_logprobs

A server outlives runs, and its prefix cache remembers adapters by name and path: names get a suffix that is new for
every connection, so a resumed run never meets the keys and values of an earlier one. Whoever reaches such a server
can make it read files, so only loopback addresses are accepted, or those of a network that the user names. The
server must see the run's folder under the same path.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agon.engine.vllm import Draw, Drawn, EngineDown
from agon.errors import ConfigError, EngineError
from agon.types import BASE

READY = 300.0
"""Seconds that a server may take to answer, at the start and after a failure."""
POLL = 0.5
NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Said aloud: a server would fill them in from the checkpoint's own generation config."""
HOW = (
    "start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and "
    "--enable-lora --max-loras 4 --max-lora-rank RANK --logprobs-mode processed_logprobs"
)
COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


class ServerEngine:
    """Implements `agon.engine.vllm.Engine` over HTTP."""

    def __init__(self, url: str, *, network: str | None = None, ready: float = READY) -> None:
        check_address(url, network)
        self.url, self.context = url.rstrip("/").removesuffix("/v1"), 0
        self._ready = ready
        self._client: Any = None
        self._model = self._nonce = ""
        self._names: dict[str, str] = {}
        self._tokens = 0

    async def start(self) -> None:
        """Wait until the server answers; ask what it serves."""
        import httpx

        self._client = httpx.AsyncClient(base_url=self.url, timeout=None, limits=httpx.Limits())
        self._nonce, self._names = uuid.uuid4().hex[:8], {}
        await self._wait()
        base = (await self._ask("GET", "/v1/models"))["data"][0]
        self._model, self.context = base["id"], base["max_model_len"]

    async def load(self, version: str, folder: Path) -> None:
        if version in self._names:
            return
        name = f"{version}+{self._nonce}"
        await self._ask("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        self._names[version] = name

    async def unload(self, version: str) -> None:
        if name := self._names.pop(version, None):
            await self._ask("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    async def draw(self, draw: Draw, stop: frozenset[int]) -> Drawn:
        if draw.version != BASE and draw.version not in self._names:
            raise EngineError(f"{draw.version} is not loaded", fix="publish or pin it before sampling from it")
        wanted = {
            "model": self._names.get(draw.version, self._model),
            "prompt": list(draw.ids),
            "temperature": draw.sampling.temperature,
            "top_p": draw.sampling.top_p,
            "max_tokens": draw.sampling.max_tokens,
            "seed": draw.seed,
            "stop_token_ids": sorted(stop),
            "logprobs": 0,
            "return_token_ids": True,
            **NEUTRAL,
        }
        choice = (await self._ask("POST", "/v1/completions", wanted))["choices"][0]
        ids, logprobs = tuple(choice["token_ids"]), tuple(choice["logprobs"]["token_logprobs"])
        return Drawn(ids, logprobs, "stop" if choice["finish_reason"] == "stop" else "length")

    async def progress(self) -> int:
        """The server's own counters; a server that does not answer makes no progress."""
        import httpx

        try:
            text = (await self._client.get("/metrics", timeout=5)).text
        except httpx.HTTPError:
            return self._tokens
        counts = [line.rsplit(" ", 1)[-1] for line in text.splitlines() if line.startswith(COUNTERS)]
        self._tokens = int(sum(map(float, counts)))
        return self._tokens

    async def sleep(self) -> None:
        """A server has memory of its own."""

    async def wake(self) -> None:
        """It never slept."""

    async def stop(self) -> None:
        """Leave the server as it was: our adapters forgotten, our requests cancelled."""
        if self._client is None:
            return
        for version in list(self._names):
            try:
                await asyncio.wait_for(self.unload(version), 5)
            except (EngineDown, EngineError, TimeoutError):
                break
        await self._client.aclose()

    async def _wait(self) -> None:
        """Until the server is healthy, or it has had its time."""
        import httpx

        deadline = asyncio.get_running_loop().time() + self._ready
        while asyncio.get_running_loop().time() < deadline:
            try:
                if (await self._client.get("/health", timeout=5)).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(POLL)
        raise EngineError(f"no vLLM server answers at {self.url}", fix=f"{HOW}; then agon train RUN --resume")

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One exchange: what is the server's fault is worth a retry, what is ours is not."""
        import httpx

        try:
            answer = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise EngineDown(f"{self.url} broke off: {error!r}") from error
        if answer.status_code >= 500:
            raise EngineDown(f"{path} answered {answer.status_code}: {answer.text[:200]}")
        if answer.status_code >= 400:
            raise EngineError(f"{self.url}{path} answered {answer.status_code}: {answer.text[:200]}", fix=HOW)
        return answer.json() if answer.headers.get("content-type", "").startswith("application/json") else answer.text


def check_address(url: str, network: str | None) -> None:
    """Refuse a server that is neither on this machine nor in the network that the user named."""
    host = urlsplit(url).hostname
    if not host:
        raise ConfigError(f"sampler.url: {url} is not an address", fix="write it like http://localhost:8000")
    try:
        found = {ipaddress.ip_address(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ConfigError(f"sampler.url: {host} has no address ({error})", fix="check the spelling") from error
    allowed = ipaddress.ip_network(network) if network else None
    if outside := [address for address in found if not address.is_loopback and (not allowed or address not in allowed)]:
        raise ConfigError(
            f"sampler.url: {host} is {outside[0]}, which is neither this machine nor in sampler.network: "
            "a server that loads adapters at run time reads any file it is told to",
            fix="run it on localhost, or name its network: sampler.network=10.0.0.0/8",
        )
