"""What the game asks of a machine: a Sampler draws completions, a Verifier judges them, a Learner moves adapters."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from agon.types import Completion, Policy, Problem, Request, Stream, Verdict, Version


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a learner needs of a completion: exact ids as they were sampled, and the sampler's log-probabilities.

    A completion of several turns holds tool results and turns of an environment too: `sampled` is False there. The
    policy reads these tokens and does not learn them. None: it drew them all.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    sampled: tuple[bool, ...] | None = None

    @property
    def size(self) -> int:
        """How many ids there are, of the prompt and of the completion."""
        return len(self.prompt_ids) + len(self.completion_ids)


class CompletionSource(Protocol):
    """What `play` asks for: completions, and how much of a text fits. One `await` is one completion."""

    async def sample(self, request: Request) -> Completion:
        """Draw one completion from the requested version and say which version made it."""
        ...

    def clip(self, text: str, max_tokens: int) -> str:
        """The first `max_tokens` tokens of `text`: how a peek is capped in the model's own units."""
        ...


class Sampler(CompletionSource, Protocol):
    """An engine that draws completions from versions that are published to it; it batches what is in flight."""

    def publish(self, version: Version, folder: Path) -> None:
        """Make `folder` (a PEFT directory) the latest version of its policy. A version is never reused."""
        ...

    def pin(self, version: Version, folder: Path) -> None:
        """Keep a version live however many are published after it; load it from `folder` if it is not."""
        ...

    def close(self) -> None: ...


Verify = Callable[[Problem, Completion], Awaitable[Verdict]]
"""c(y) and phi(y): one verdict for one completion, never a float, never a silent zero. Every Verifier is one."""


class Verifier(abc.ABC):
    """Callable from asyncio one row at a time, or blocking for many; safe to share between threads and tasks."""

    @abc.abstractmethod
    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        """The verdict on one completion."""

    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        """The verdicts on many completions, in order; blocks until all are there."""

        async def all_verdicts() -> list[Verdict]:
            return list(await asyncio.gather(*(self(*pair) for pair in pairs)))

        with ThreadPoolExecutor(1) as thread:  # the caller may have a loop of its own
            return thread.submit(asyncio.run, all_verdicts()).result()

    @abc.abstractmethod
    def self_test(self) -> list[str]:
        """What the verifier gets wrong about pairs whose verdict is known; empty when it works."""

    @property
    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """Rows seen, and what it took to judge them."""

    @abc.abstractmethod
    def close(self) -> None:
        """End every process and thread that the verifier started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Update:
    """What one optimizer step did, per policy: loss, gradient norm, learning rate, clipping, KL, masked rows."""

    step: int
    metrics: Mapping[Policy, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the learner's log-probabilities are from those of the engine that drew, on the rows of one policy."""

    policy: Policy
    engine: str
    mean: float
    """|learner - sampler| in nats per token."""
    tokens: int


def nothing_stops() -> None:
    """The `check` of an update that nothing ends early."""


def accept_all(gaps: Sequence[Gap]) -> None:
    """The `accept` of an update that trusts its rows."""


class Learner(Protocol):
    """Moves both adapters, one optimizer step at a time."""

    @property
    def step(self) -> int:
        """Steps done so far; a loaded checkpoint sets it."""
        ...

    @property
    def consistent(self) -> bool:
        """Whether weights, optimizer and step belong together: False while the optimizer moves."""
        ...

    def update(
        self,
        streams: Sequence[Stream],
        check: Callable[[], None] = nothing_stops,
        accept: Callable[[Sequence[Gap]], None] = accept_all,
    ) -> Update:
        """One optimizer step from the rows of both streams.

        `check` is called between passes, and `accept` between the gradients and the step. Either raises to stop: then
        nothing was learnt.
        """
        ...

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Run the largest micro-batch a run can meet and learn nothing from it; EngineError when it does not fit."""
        ...

    def export(self, policy: Policy, folder: Path) -> str:
        """Write the policy's adapter as a plain PEFT directory; return a hash of its weights."""
        ...

    def hash(self, policy: Policy) -> str:
        """The hash of the policy's weights as they are now."""
        ...

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy's weights as they are now, as in the loss; None is the bare base."""
        ...

    def save(self, folder: Path) -> None:
        """Write `a/`, `b/` and `trainer_state/`: everything needed to resume exactly."""
        ...

    def load(self, folder: Path) -> None: ...

    def memory(self) -> Mapping[str, int]:
        """Bytes in use now, by part, for `timings.jsonl`."""
        ...
