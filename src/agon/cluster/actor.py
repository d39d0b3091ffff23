"""The caller's side of an actor: plain awaits, and one kind of error where the actor is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any, Protocol

from agon.cluster.shell import CallRefused, Failed
from agon.pool import WorkerDown


class ActorLost(WorkerDown):
    """The actor, its process, its node or the way there is gone, or it failed by itself: worth a try elsewhere."""


class Handle(Protocol):
    """What Ray gives for an actor; every call may raise anything."""

    def ask(self, verb: str, *args: Any) -> Future[Any]: ...

    def stream(self, verb: str, items: list[Any]) -> AsyncIterator[tuple[int, Any]]: ...

    def kill(self) -> None: ...


class Actor:
    """An object on some node. Every call may raise ActorLost, or the object's own AgonError."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._waiting: dict[str, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._streams: set[asyncio.Task[None]] = set()

    def begin(self, verb: str, *args: Any) -> Future[Any]:
        """Call a method there without waiting, from any thread; who only asks whether it is done needs no more."""
        return self._handle.ask(verb, *args)

    async def ask(self, verb: str, *args: Any) -> Any:
        """What a method returns there."""
        try:
            answer = await asyncio.wrap_future(self.begin(verb, *args))
        except Exception as error:
            raise lost(error) from error
        return opened(answer)

    async def ask_together(self, verb: str, item: Any) -> Any:
        """The same for one argument; all that are asked in one turn of this loop are one call, whose answers stream."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        waiting = self._waiting.setdefault(verb, [])
        waiting.append((item, answer))
        if len(waiting) == 1:
            loop.call_soon(self._send, verb)
        return opened(await answer)

    def kill(self) -> None:
        """End its process; a second call does nothing."""
        self._handle.kill()

    def _send(self, verb: str) -> None:
        waiting = self._waiting.pop(verb)
        task = asyncio.get_running_loop().create_task(self._receive(verb, waiting))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)

    async def _receive(self, verb: str, waiting: list[tuple[Any, asyncio.Future[Any]]]) -> None:
        reason = "the stream ended early"
        try:
            async for number, answer in self._handle.stream(verb, [item for item, _ in waiting]):
                if not waiting[number][1].done():
                    waiting[number][1].set_result(answer)
        except Exception as error:
            reason = str(lost(error))
        finally:
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(ActorLost(reason))


def opened(answer: Any) -> Any:
    """An answer that crossed, or the error that it stands for."""
    if isinstance(answer, CallRefused):
        raise answer.error
    if isinstance(answer, Failed):
        raise ActorLost(answer.reason)
    return answer


def lost(error: Exception) -> ActorLost:
    """An error of Ray, in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return ActorLost(f"{type(error).__name__}: {first[:200]}")
