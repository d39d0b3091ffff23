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
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from agon.engine.vllm.sampler import Draw, Drawn, EngineDown, finished
from agon.errors import ConfigError, EngineError
from agon.types import BASE, Sampling

READY = 300.0
"""Seconds that a server may take to say what it serves, at the start and after a failure."""
POLL = 0.5
ONE_TOKEN = Sampling(temperature=1.0, top_p=1e-6, max_tokens=8)
"""Drawn like this, a token has log-prob 0, unless the server tells log-probs of another distribution."""
NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Said aloud: a server would fill them in from the checkpoint's own generation config."""
HOW = (
    "start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and "
    "--enable-lora --max-loras 4 --max-lora-rank RANK --logprobs-mode processed_logprobs"
)
COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


class Forgotten(EngineDown):
    """The server was started again: it does not know a name that it had loaded."""


class ServerEngine:
    """Implements `agon.engine.vllm.sampler.Engine` over HTTP."""

    def __init__(self, url: str, *, network: str | None = None, ready: float = READY) -> None:
        check_address(url, network)
        self.url, self.context = url.rstrip("/").removesuffix("/v1"), 0
        self._ready = ready
        self._client: Any = None
        self._model = self._nonce = ""
        self._names: dict[str, str] = {}
        self._tokens = 0

    async def start(self) -> None:
        """Wait until the server answers; ask what it serves, and how."""
        import httpx

        # without the environment's proxies: nothing in between reads along, or hides the counters
        self._client = httpx.AsyncClient(base_url=self.url, timeout=None, limits=httpx.Limits(), trust_env=False)
        self._nonce, self._names, why = uuid.uuid4().hex[:8], {}, "nothing came back"
        try:
            async with asyncio.timeout(self._ready):
                while True:
                    try:
                        return await self._introduce()
                    except EngineDown as failure:
                        why = str(failure)
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise EngineError(
                f"no vLLM server answers at {self.url}: {why}", fix=f"{HOW}; then agon train RUN --resume"
            ) from None

    async def load(self, version: str, folder: Path) -> None:
        if version in self._names:
            return
        name = f"{version}+{self._nonce}"
        await self._ask("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        self._names[version] = name

    async def unload(self, version: str) -> None:
        if name := self._names.pop(version, None):
            with suppress(Forgotten):
                await self._ask("POST", "/v1/unload_lora_adapter", {"lora_name": name}, loaded=True)

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
        choice = (await self._ask("POST", "/v1/completions", wanted, loaded=draw.version != BASE))["choices"][0]
        finish = finished(choice["finish_reason"])
        return Drawn(tuple(choice["token_ids"]), tuple(choice["logprobs"]["token_logprobs"]), finish)

    async def progress(self) -> int:
        """The server's own counters; a server that does not answer makes no progress."""
        with suppress(EngineDown):
            self._tokens = int(sum(counted((await self._send("GET", "/metrics", timeout=5)).text)))
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

    async def _introduce(self) -> None:
        """Ask what the server serves; refuse one that cannot be watched, or whose log-probs are not the sampler's."""
        if (await self._send("GET", "/health", timeout=5)).status_code != 200:
            raise EngineDown(f"{self.url} is not healthy")
        base = (await self._ask("GET", "/v1/models"))["data"][0]
        self._model, self.context = base["id"], base["max_model_len"]
        if not counted((await self._send("GET", "/metrics")).text):
            raise EngineError(
                f"{self.url}/metrics counts no tokens: a server that hangs could not be told from one that works",
                fix="start it without --disable-log-stats, and let /metrics through",
            )
        if median((await self.draw(Draw((0, 1, 2), BASE, 0, ONE_TOKEN), frozenset())).logprobs) < -1e-3:
            raise EngineError(f"the log-probs of {self.url} are not those of the distribution it draws from", fix=HOW)

    async def _send(self, method: str, path: str, **more: Any) -> Any:
        import httpx

        try:
            return await self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise EngineDown(f"{self.url} broke off: {error!r}") from error

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None, loaded: bool = False) -> Any:
        """One exchange: what is the server's fault is worth a retry, what is ours is not.

        `loaded`: it is about an adapter that the server has loaded before.
        """
        answer = await self._send(method, path, json=body)
        if answer.status_code >= 500:
            raise EngineDown(f"{path} answered {answer.status_code}: {answer.text[:200]}")
        if loaded and answer.status_code == 404:
            raise Forgotten(f"{self.url} was started again and has lost its adapters")
        if answer.status_code >= 400:
            raise EngineError(f"{self.url}{path} answered {answer.status_code}: {answer.text[:200]}", fix=HOW)
        return answer.json() if answer.headers.get("content-type", "").startswith("application/json") else answer.text


def counted(metrics: str) -> list[float]:
    """The values of the counters of tokens."""
    return [float(line.rsplit(" ", 1)[-1]) for line in metrics.splitlines() if line.startswith(COUNTERS)]


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
