"""A sampler without a model: completions come from a function, time from a virtual clock.

For tests of the game, for trying a verifier or a prompt without a GPU, and for teaching. `answer(request)` writes the
completion; a completion lasts as many ticks as it has words, so that lengths alone decide what overlaps.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agon.errors import EngineError
from agon.types import Completion, Policy, Request, Version

IDLE_HOPS = 8
"""Turns of the event loop without a new request after which every caller counts as waiting for the clock."""


@dataclass(frozen=True, slots=True)
class Event:
    """A request began or ended at a tick of the virtual clock."""

    tick: int
    kind: Literal["start", "end"]
    request: Request


class ScriptedSampler:
    """Implements `agon.protocols.Sampler`; `events` lists what started and ended when."""

    def __init__(self, answer: Callable[[Request], str]) -> None:
        self.answer = answer
        self.events: list[Event] = []
        self.latest: dict[Policy | None, Version] = {policy: Version.of(policy, 0, "scripted") for policy in Policy}
        self.published: set[Version] = set(self.latest.values())
        self._now = 0
        self._order = 0
        self._waiting: list[tuple[int, int, Request, str, asyncio.Future[str]]] = []

    async def sample(self, request: Request) -> Completion:
        """Ask the script, then wait as many ticks as the text has words."""
        text = self.answer(request)
        words = text.split()
        limit = request.sampling.max_tokens
        if len(words) > limit:
            text = " ".join(words[:limit])
        generated = min(len(words), limit)
        await self._wait(request, generated, text)
        finish: Literal["stop", "length"] = "length" if len(words) > limit else "stop"
        prompt_tokens = sum(len(message.text.split()) for message in request.prompt.messages)
        return Completion(text, self._version(request), prompt_tokens, generated, finish)

    def publish(self, version: Version, folder: Path) -> None:
        """Remember the version; one is never reused."""
        if version in self.published:
            raise EngineError(
                f"version {version} was published before", fix="give every published adapter a fresh name"
            )
        self.published.add(version)
        self.latest[version.policy] = version

    def pin(self, version: Version, folder: Path) -> None:
        """Nothing to keep: a script has no weights."""
        self.published.add(version)

    def clip(self, text: str, max_tokens: int) -> str:
        words = text.split()
        return text if len(words) <= max_tokens else " ".join(words[:max_tokens])

    def close(self) -> None:
        self._waiting.clear()

    def _version(self, request: Request) -> Version:
        return self.latest[request.seat] if isinstance(request.seat, Policy) else request.seat

    async def _wait(self, request: Request, ticks: int, text: str) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        self.events.append(Event(self._now, "start", request))
        self._order += 1
        heapq.heappush(self._waiting, (self._now + ticks, self._order, request, text, done))
        loop.call_soon(self._when_idle, self._order, IDLE_HOPS)
        await done

    def _when_idle(self, seen: int, hops: int) -> None:
        """Move the clock once nothing new has been asked for during `hops` turns of the loop."""
        if seen != self._order or not self._waiting:
            return
        if hops:
            asyncio.get_running_loop().call_soon(self._when_idle, seen, hops - 1)
            return
        self._now, _, request, text, done = heapq.heappop(self._waiting)
        self.events.append(Event(self._now, "end", request))
        if not done.cancelled():
            done.set_result(text)
        asyncio.get_running_loop().call_soon(self._when_idle, self._order, IDLE_HOPS)
