"""What a fleet asks of an engine, in token ids: a base with adapters that are loaded and unloaded by version."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agon.pool import WorkerDown
from agon.types import Finish, Sampling, Version

ROUNDING = 1e-3
"""How far above 0 a log-prob may be."""


class EngineDown(WorkerDown):
    """An engine that failed."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One completion to draw."""

    ids: tuple[int, ...]
    version: Version
    seed: int
    sampling: Sampling
    watch: Callable[[Sequence[int]], None] | None = field(default=None, compare=False, repr=False)
    """Called with the ids so far while they are drawn, by engines that can."""


@dataclass(frozen=True, slots=True)
class DrawResult:
    """What was drawn, including the token that ended it."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    member: int = field(default=0, compare=False)
    """Which engine of a fleet drew it."""

    def check(self, draw: Draw, vocabulary: int) -> None:
        """Raise EngineDown for what no working engine returns: a learner would fail on it, or train on it."""
        if not 1 <= len(self.ids) <= draw.sampling.max_tokens:
            raise EngineDown(f"the engine drew {len(self.ids)} tokens, of {draw.sampling.max_tokens} at most")
        if len(self.logprobs) != len(self.ids):
            raise EngineDown(f"the engine returned {len(self.logprobs)} log-probs for {len(self.ids)} tokens")
        if strange := [token for token in self.ids if not 0 <= token < vocabulary]:
            raise EngineDown(f"the engine drew token {strange[0]} from a vocabulary of {vocabulary}")
        if odd := [value for value in self.logprobs if not (math.isfinite(value) and value <= ROUNDING)]:
            raise EngineDown(f"the engine returned {odd[0]} as a log-prob")


class Engine(Protocol):
    """A vLLM, wherever it runs. Every call may raise EngineDown."""

    context: int
    """Tokens that fit in one sequence."""
    logs: str
    """Where to find what it prints."""

    async def start(self) -> None: ...

    async def load(self, version: Version, folder: Path) -> None:
        """Make a version live; does nothing if it is."""
        ...

    async def unload(self, version: Version) -> None:
        """Forget a version; does nothing if it is not live."""
        ...

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """What differs, to the bit, between a version that is live and the weights in `folder`, by name of the layer.

        `digest` is the SHA-256 of the file that the learner wrote. None: the engine cannot say.
        """
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


def then_resume(logs: str) -> str:
    """What to do about an engine that fails again and again."""
    return f"see {logs}, then resume with: agon train RUN --resume"


def in_any(workers: Sequence[Sequence[str]]) -> list[str]:
    """What differs in any worker of an engine."""
    return list(dict.fromkeys(key for worker in workers for key in worker))


def finish_of(reason: str | None) -> Finish:
    """How a completion ended; an engine that is shutting down returns partial ones, which are not used."""
    if reason not in ("stop", "length"):
        raise EngineDown(f"a completion was aborted ({reason})")
    return "stop" if reason == "stop" else "length"
