"""A vLLM server that is already running: token ids in and out over HTTP, adapters loaded by name and path.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_SERVER_DEV_MODE=1 vllm serve BASE --enable-lora --max-loras 4 \
        --max-cpu-loras 8 --max-lora-rank 16 --logprobs-mode processed_logprobs \
        --worker-extension-cls agon.engine.vllm.worker.StrictAdapters

A server outlives runs, and its prefix cache is keyed by adapter name and path: names get a suffix that is new for
every connection, so a resumed run never meets the keys and values of an earlier one. Anyone who reaches such a server
can make it read files, so only loopback addresses are accepted, or those of a network that the user names. The
server must see the run's folder under the same path. A key in AGON_API_KEY is sent to it. Without the worker extension,
or without the development mode, it cannot say what its adapters hold (`attest`); it serves all the same.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median

from agon.engine.http_client import DENIED, KEY, NEUTRAL, TEMPORARY, HTTPClient, Reply
from agon.engine.protocol import Draw, DrawResult, EngineDown, finish_of, in_any
from agon.engine.replies import Attested, Models, ScoredTokens, parse
from agon.errors import ConfigError, EngineError
from agon.types import BASE, Sampling, Version
from agon.urls import host_of

READY = 300.0
"""Seconds that a server may take to report what it serves, at the start and after a failure."""
LONGEST = 6 * 3600.0
"""Seconds that a request may take in all, waiting for others included; the fleet watches the counters meanwhile."""
POLL = 0.5
ONE_TOKEN = Sampling(temperature=1.0, top_p=1e-6, max_tokens=8)
"""Drawn like this, a token has log-prob 0, unless the server returns log-probs of a different distribution."""
HOW = (
    "start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and "
    "--enable-lora --max-loras 4 --max-lora-rank RANK --logprobs-mode processed_logprobs"
)
RPC = "/collective_rpc"
"""How a server in development mode calls its workers."""
COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


class AdapterLost(EngineDown):
    """The server was restarted: it does not know a name that it had loaded."""


class ServerEngine:
    """Implements `agon.engine.protocol.Engine` over HTTP."""

    logs = "the server's log"

    def __init__(self, url: str, *, network: str | None = None, ready: float = READY) -> None:
        check_address(url, network)
        self.url, self.context = url.rstrip("/").removesuffix("/v1"), 0
        self._ready = ready
        self._client = HTTPClient(self.url)
        self._model = self._nonce = ""
        self._names: dict[Version, str] = {}
        self._tokens, self._attests = 0, False

    async def start(self) -> None:
        """Wait until the server answers; ask what it serves, and how."""
        self._client = HTTPClient(self.url, limit=LONGEST)
        self._nonce, self._names, reason = uuid.uuid4().hex[:8], {}, "no reply"
        try:
            async with asyncio.timeout(self._ready):
                while True:
                    try:
                        return await self._introduce()
                    except EngineDown as failure:
                        reason = str(failure)
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise EngineError(
                f"no vLLM server answers at {self.url}: {reason}",
                fix=f"{HOW}; then resume with: agon train RUN --resume",
            ) from None

    async def load(self, version: Version, folder: Path) -> None:
        if version in self._names:
            return
        name = f"{version}+{self._nonce}"
        await self._ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        self._names[version] = name

    async def unload(self, version: Version) -> None:
        if name := self._names.pop(version, None):
            with suppress(AdapterLost):
                await self._ask("/v1/unload_lora_adapter", {"lora_name": name}, loaded=True)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        if not self._attests:
            return None
        name = self._names.get(version, version)
        reply = await self._ask(RPC, {"method": "attest", "args": [name, str(folder), digest]})
        return in_any(parse(reply, Attested).results)

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        if draw.version != BASE and draw.version not in self._names:
            raise EngineError(f"{draw.version} is not loaded", fix="publish or pin it before sampling from it")
        body = {
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
        reply = await self._ask("/v1/completions", body, loaded=draw.version != BASE)
        choice = parse(reply, ScoredTokens).choices[0]
        return DrawResult(choice.token_ids, choice.logprobs.token_logprobs, finish_of(choice.finish_reason))

    async def progress(self) -> int:
        """The server's own counters; a server that does not answer makes no progress."""
        with suppress(EngineDown):
            reply = await self._client.send("/metrics", limit=5)
            self._tokens = sum(counted(reply)) if reply.ok else self._tokens
        return self._tokens

    async def sleep(self) -> None:
        """Nothing to do: a server has memory of its own."""

    async def wake(self) -> None:
        """Nothing to do: it never slept."""

    async def stop(self) -> None:
        """Leave the server as it was: unload our adapters, cancel our requests."""
        for version in list(self._names):
            try:
                await asyncio.wait_for(self.unload(version), 5)
            except (EngineDown, EngineError, TimeoutError):
                break
        await self._client.close()

    async def _introduce(self) -> None:
        """Ask what the server serves; refuse one that cannot be watched, or whose log-probs are not the sampler's."""
        if not (await self._send("/health", limit=5)).ok:
            raise EngineDown(f"{self.url} is not healthy")
        await self._identify()
        if not counted(await self._send("/metrics")):
            raise EngineError(
                f"{self.url}/metrics counts no tokens: a server that hangs would look like one that works",
                fix="start it without --disable-log-stats, and let /metrics through",
            )
        drawn = await self.draw(Draw((0, 1, 2), BASE, 0, ONE_TOKEN), frozenset())
        if not drawn.logprobs:
            raise EngineDown(f"{self.url} drew no token")
        if median(drawn.logprobs) < -1e-3:
            raise EngineError(f"the log-probs of {self.url} are not those of the distribution it draws from", fix=HOW)
        self._attests = await self._can_attest()

    async def _can_attest(self) -> bool:
        """Whether it has the development endpoints (404 if not) and our worker extension (500 if not)."""
        reply = await self._send(RPC, {"method": "attest", "args": ["", "", ""]}, limit=self._ready)
        if not reply.ok and reply.status not in (404, 500):
            raise EngineDown(f"{RPC} answered {reply.status}: {reply.text[:200]}")
        return reply.ok

    async def _identify(self) -> None:
        models = parse(await self._ask("/v1/models"), Models).data
        if not models:
            raise EngineDown(f"{self.url} serves no model")
        if models[0].max_model_len is None:
            raise EngineError(f"{self.url} is not a vLLM server: it does not say how long a sequence may be", fix=HOW)
        self._model, self.context = models[0].id, models[0].max_model_len

    async def _ask(self, path: str, body: Mapping[str, object] | None = None, *, loaded: bool = False) -> Reply:
        """One exchange: a failure of the server is worth a retry, a refused request is not.

        `loaded`: it is about an adapter that the server has loaded before.
        """
        reply = await self._send(path, body)
        if reply.status >= 500 or reply.status in TEMPORARY:
            raise EngineDown(f"{path} answered {reply.status}: {reply.text[:200]}")
        if loaded and reply.status == 404:
            raise AdapterLost(f"{self.url} was restarted and has lost its adapters")
        if not reply.ok:
            raise EngineError(f"{reply.url} answered {reply.status}: {reply.text[:200]}", fix=HOW)
        return reply

    async def _send(self, path: str, body: Mapping[str, object] | None = None, *, limit: float | None = None) -> Reply:
        """One exchange that was let through: what is denied says nothing about what the server can do."""
        reply = await self._client.send(path, body, limit=limit)
        if reply.status in DENIED:
            raise EngineError(
                f"{reply.url} answered {reply.status}: {reply.text[:200]}",
                fix=f"put the server's key in {KEY}, or let {path} through the proxy that answers for it",
            )
        return reply


def counted(metrics: Reply) -> list[int]:
    """The values of the counters of tokens; EngineDown if one is not a number."""
    lines = [line for line in metrics.text.splitlines() if line.startswith(COUNTERS)]
    try:
        return [int(float(line.rsplit(" ", 1)[-1])) for line in lines]
    except (ValueError, OverflowError) as error:
        raise EngineDown(f"{metrics.url} counts tokens in something other than numbers: {error}") from error


def check_address(url: str, network: str | None) -> None:
    """Refuse a server that is neither on this machine nor in the network that the user named."""
    host = host_of(url)
    if not host:
        raise ConfigError(f"sampler.urls: {url} is not a valid URL", fix="write it like http://localhost:8000")
    if "@" in url:
        raise ConfigError("sampler.urls holds a password, which the run would store", fix=f"put a key in {KEY} instead")
    if outside := outsider(host, network):
        raise ConfigError(
            f"sampler.urls: {host} is {outside}, which is neither this machine nor in sampler.network: "
            "a server that loads adapters at run time reads any file it is asked to read",
            fix="run it on localhost, or name its network: sampler.network=10.0.0.0/8",
        )


def outsider(host: str, network: str | None) -> str | None:
    """The first address of a host that is neither this machine's nor in the network."""
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None)})
    except OSError as error:
        raise ConfigError(f"sampler.urls: cannot resolve {host} ({error})", fix="check the spelling") from error
    try:
        allowed = ipaddress.ip_network(network) if network else None
    except ValueError as error:
        raise ConfigError(f"sampler.network: {error}", fix="write it like 10.0.0.0/8") from error
    inside = (ip.is_loopback or (allowed and ip in allowed) for ip in map(ipaddress.ip_address, addresses))
    return next((address for address, held in zip(addresses, inside, strict=True) if not held), None)
