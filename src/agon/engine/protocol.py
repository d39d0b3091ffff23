"""What a fleet asks of an engine, in token ids: a base with adapters that are loaded and unloaded by version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agon.types import Finish, Sampling, Version

SEE_LOG = "see its log output above, or run `agon doctor`"
"""What to do about an engine that does not start or refuses a request."""


class EngineDown(Exception):
    """The engine died, hangs, crawls or does not answer: worth another try, unlike a request that it refused."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One completion to draw."""

    ids: tuple[int, ...]
    version: Version
    seed: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class DrawResult:
    """What was drawn, including the token that ended it."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish


class Engine(Protocol):
    """A vLLM, wherever it runs. Every call may raise EngineDown."""

    context: int
    """Tokens that fit in one sequence."""

    async def start(self) -> None: ...

    async def load(self, version: Version, folder: Path) -> None:
        """Make a version live; does nothing if it is."""
        ...

    async def unload(self, version: Version) -> None:
        """Forget a version; does nothing if it is not live."""
        ...

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult: ...

    async def progress(self) -> int:
        """Tokens processed so far, prompts included."""
        ...

    async def sleep(self) -> None:
        """Release memory without losing the base or an adapter."""
        ...

    async def wake(self) -> None: ...

    async def stop(self) -> None:
        """Stop it, dead or alive, and leave no process behind."""
        ...


def finish_of(reason: str | None) -> Finish:
    """How a completion ended; an engine that is shutting down returns partial ones, which are not used."""
    if reason not in ("stop", "length"):
        raise EngineDown(f"a completion was aborted ({reason})")
    return "stop" if reason == "stop" else "length"
