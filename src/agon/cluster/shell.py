"""The actor: one object on a node. What it raises crosses as a value, so that the caller knows whose failure it is.

Ray raises errors of its own where a node or a process is lost. Were our errors to cross as exceptions, they would come
out wrapped, and an adapter that was refused would look like a machine that died.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agon.errors import AgonError


@dataclass(frozen=True, slots=True)
class CallRefused:
    """An answer: one of our own errors. The request is at fault, and would fail elsewhere too."""

    error: AgonError


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer: anything else went wrong. This actor is at fault; another may do it."""

    reason: str


POLL = 2.0
"""Seconds in which an actor notices that its node is gone."""


class Shell:
    """Holds an object that `make` builds on the node, and calls its coroutine methods by name."""

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        self._make = (make, args)
        self._object: Any = None

    async def ask(self, verb: str, *args: Any) -> Any:
        """What a method returns, or how it failed."""
        try:
            if self._object is None:  # built here and not above: an error of a constructor would lose its type
                make, given = self._make
                self._object = make(*given)
            return await getattr(self._object, verb)(*args)
        except AgonError as error:
            return CallRefused(error)
        except Exception as error:
            return Failed(str(error) or repr(error))

    async def stream(self, verb: str, items: Sequence[Any]) -> AsyncIterator[tuple[int, Any]]:
        """Ask about many items at once; each answer leaves, with the number of its item, as soon as it is there."""

        async def one(number: int, item: Any) -> tuple[int, Any]:
            return number, await self.ask(verb, item)

        for done in asyncio.as_completed([one(number, item) for number, item in enumerate(items)]):
            yield await done


class NodeShell(Shell):
    """The same in a process of a node, which it ends with: an actor whose raylet was killed would live on, unseen by
    Ray, and keep its GPU."""

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        super().__init__(make, *args)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process soon after its parent; a watcher ends what an engine started (`engine/vllm/orphans.py`)."""
    while os.getppid() == parent:
        time.sleep(POLL)
    os._exit(1)
