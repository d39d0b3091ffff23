"""Sampler over any OpenAI-compatible URL.

Where the base's tokenizer is available and the server takes token ids (`/completions`, as vLLM does), our own ids are
sent: the prompts are then training's to the last id. Elsewhere only text can be sent (`/chat/completions`): prompts are
rendered by the server, so quoted text goes in its escaped form (what could pass for structure is plain text) instead of
being spliced in as ids, and the ids at its edges may differ. Either way a learner cannot train on it, and a server may
ignore a seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from agon.bridge import Bridge
from agon.engine.http_client import DENIED, KEY, NEUTRAL, HTTPClient, Reply
from agon.engine.protocol import EngineDown
from agon.engine.render import Rendered, Renderer
from agon.engine.replies import Body, Chat, Models, PlainTokens, Usage, parse
from agon.errors import EngineError
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, Finish, Policy, Quote, Request, Seat, Version
from agon.urls import host_of

T = TypeVar("T", bound=Body)

LIMIT = 1800.0
"""Seconds that one completion may take."""
TRIES = 5
IN_FLIGHT = 64
"""Requests at a time."""


class OpenAISampler:
    """Implements `agon.protocols.Sampler`. `base` is what the server calls the bare base; a version's default name is
    its own."""

    def __init__(
        self,
        url: str,
        base: str,
        *,
        escape: Callable[[str], str],
        renderer: Renderer | None,
        limit: float = LIMIT,
    ) -> None:
        if not host_of(url):
            raise EngineError(f"{url!r} is not a valid URL", fix="write it like http://localhost:8000/v1")
        if "@" in url:
            raise EngineError("the URL holds a password, which errors would repeat", fix=f"put a key in {KEY} instead")
        self.ids = False
        """Whether token ids are sent; `check` finds out."""
        self.why_text = ""
        """What the server answered to token ids, if it refused them."""
        self._escape, self._renderer = escape, renderer
        self._names: dict[Version, str] = {BASE: base}
        self._latest: dict[Policy | None, Version] = {}
        self._client = HTTPClient(url, limit=limit, proxies=True)
        self._slots, self._bridge = asyncio.Semaphore(IN_FLIGHT), Bridge("agon-url")

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; the version is the one the request names, under the server's name for it."""
        version = self._resolve(request.seat)
        sampling = request.sampling
        body: dict[str, object] = {
            "model": self._names[version],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
        }
        if self.ids and self._renderer:
            rendered = self._renderer.render(request.prompt)
            stop = sorted(self._renderer.stop)
            body |= {"prompt": list(rendered.ids), "return_token_ids": True, "stop_token_ids": stop, **NEUTRAL}
            return from_ids(await self._draw("/completions", body, PlainTokens), version, rendered, self._renderer)
        body["messages"] = [{"role": m.role, "content": self._text(m.parts)} for m in request.prompt.messages]
        return from_chat(await self._draw("/chat/completions", body, Chat), version)

    def clip(self, text: str, max_tokens: int) -> str:
        """By the base's tokenizer; without one, by a low estimate of three characters per token."""
        return self._renderer.clip(text, max_tokens) if self._renderer else text[: 3 * max_tokens]

    def publish(self, version: Version, folder: Path) -> None:
        """Make a version the latest of its policy; the server must have it already, as nothing is sent to it."""
        self._names.setdefault(version, version)
        self._latest[version.policy] = version

    def pin(self, version: Version, folder: Path) -> None:
        """Know a version by its name; the server decides what stays live."""
        self._names.setdefault(version, version)

    def rename(self, version: Version, name: str) -> None:
        """Set what the server calls a version."""
        self._names[version] = name

    def check(self) -> None:
        """Ask the server for its models, refuse one that lacks what is wanted, and find out if it takes token ids."""
        served = [model.id for model in self._bridge.call(self._ask("/models", None, Models)).data]
        lacking = [f"{name} (for {version})" for version, name in self._names.items() if name not in served]
        if lacking:
            message = (
                f"{self._client.url} does not serve {', '.join(lacking)}; it serves {', '.join(served) or 'nothing'}"
            )
            raise EngineError(message, fix="map them to its names: --names a=NAME,b=NAME,base=NAME")
        self.ids = self._bridge.call(self._takes_ids())

    def close(self) -> None:
        """Cancel what is in flight."""
        self._bridge.close(self._client.close)

    async def _takes_ids(self) -> bool:
        """Draw one token from a prompt of ids: a server that counts as many prompt tokens has read them as ids."""
        if self._renderer is None:
            return False
        prompt = self._renderer.encode("one two three")
        body = {"model": self._names[BASE], "prompt": prompt, "max_tokens": 1, "return_token_ids": True} | NEUTRAL
        try:
            reply = await self._client.send_with_retries("/completions", body, lambda reply: reply, tries=TRIES)
        except EngineDown as failure:
            raise EngineError(str(failure), fix="check that the server still runs") from failure
        if reply.status == 407 or reply.status > 500:  # of a proxy, or for now: no answer to the question
            message = f"{reply.url} answered {reply.status}: {reply.text[:200].strip()}"
            raise EngineError(message, fix="see the server's log and, if one is between, that of the proxy")
        if not reply.ok:
            self.why_text = f"{reply.url} answered {reply.status}"
            return False
        try:
            drawn = parse(reply, PlainTokens)
        except EngineDown:
            return False
        return bool(drawn.usage.prompt_tokens == len(prompt) and drawn.choices[0].token_ids)

    def _resolve(self, seat: Seat) -> Version:
        version = self._latest.get(seat) if isinstance(seat, Policy) else seat
        if version is None or version not in self._names:
            raise EngineError(f"no version {version or seat} is known", fix="publish or pin it before sampling from it")
        return version

    def _text(self, parts: tuple[str | Quote, ...]) -> str:
        return "".join(self._escape(part.text) if isinstance(part, Quote) else part for part in parts)

    async def _draw(self, path: str, body: Mapping[str, object], kind: type[T]) -> T:
        return await asyncio.wrap_future(self._bridge.submit(self._ask(path, body, kind)))

    async def _ask(self, path: str, body: Mapping[str, object] | None, kind: type[T]) -> T:
        """The server's reply, after retries."""
        try:
            async with self._slots:
                reply = await self._client.send_with_retries(path, body, lambda reply: whole(reply, kind), tries=TRIES)
        except EngineDown as failure:
            fix = "check that the server runs and replies as OpenAI's does, and that the address ends in /v1"
            raise EngineError(str(failure), fix=fix) from failure
        if isinstance(reply, Reply):
            denied = reply.status in DENIED
            fix = f"put the key in {KEY}" if denied else "check the names with --names, and the server's log"
            raise EngineError(f"{reply.url} answered {reply.status}: {reply.text[:2000].strip()}", fix=fix)
        return reply


def whole(reply: Reply, kind: type[T]) -> T:
    """Raise EngineDown for a partial completion: a server that shuts down returns what it has, as if it were whole."""
    answer = parse(reply, kind)
    if isinstance(answer, Chat | PlainTokens) and answer.choices[0].finish_reason in ("abort", "error"):
        raise EngineDown(f"{reply.url} aborted the completion")
    return answer


def from_chat(answer: Chat, version: Version) -> Completion:
    """A chat completion as ours: reasoning in a field of its own is put back in front of the content."""
    choice, counts = answer.choices[0], _counts(answer.usage)
    reasoning = choice.message.reasoning or choice.message.reasoning_content or ""
    content, finish = choice.message.content or "", _finish(choice.finish_reason)
    if reasoning:
        closing = THINK_CLOSE if content or finish == "stop" else ""
        return Completion(f"{THINK_OPEN}{reasoning}{closing}{content}", version, *counts, finish)
    # a template that opens the reasoning block leaves it to the completion to close it
    opened = THINK_CLOSE in content and THINK_OPEN not in content.partition(THINK_CLOSE)[0]
    return Completion(content, version, *counts, finish, opened)


def from_ids(answer: PlainTokens, version: Version, rendered: Rendered, renderer: Renderer) -> Completion:
    """A completion of token ids as ours."""
    choice = answer.choices[0]
    text, finish = renderer.text(choice.token_ids), _finish(choice.finish_reason)
    return Completion(text, version, *_counts(answer.usage), finish, rendered.opened)


def _counts(usage: Usage) -> tuple[int, int]:
    return usage.prompt_tokens, usage.completion_tokens


def _finish(reason: str | None) -> Finish:
    return "length" if reason == "length" else "stop"
