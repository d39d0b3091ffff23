"""A rival that does not learn: what is asked of B goes to an earlier version of A, or to an endpoint.

`play` asks a sampler for policy B and does not know who answers. A frozen rival needs nothing of this: it is B's own
adapter, and no stream of B reaches the learner.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agon.config import Rival
from agon.engine.endpoint import CompletionCache, Endpoint
from agon.errors import EngineError
from agon.game.peek import escape
from agon.game.rules import Game
from agon.protocols import CompletionSource, Verify
from agon.types import Completion, Played, Policy, Problem, Reason, Request, Stream, Verdict, Version, seed_for

Draw = Callable[[Request], Awaitable[Completion]]


@dataclass(frozen=True, slots=True)
class WithRival:
    """Implements `agon.protocols.CompletionSource`: the rival draws what is asked of B, the engine all else."""

    engine: CompletionSource
    rival: Draw

    async def sample(self, request: Request) -> Completion:
        return await (self.rival if request.seat is Policy.B else self.engine.sample)(request)

    def clip(self, text: str, max_tokens: int) -> str:
        """By the tokenizer of the engine, whoever wrote the text."""
        return self.engine.clip(text, max_tokens)


@dataclass(frozen=True, slots=True)
class Seated:
    """Implements `agon.protocols.CompletionSource`: one version plays each policy, whatever is published meanwhile.

    The step is the batch: with several in flight, timing must not decide what is rounded together.
    """

    engine: CompletionSource
    versions: Mapping[Policy, Version]
    step: int = 0

    async def sample(self, request: Request) -> Completion:
        seat = self.versions[request.seat] if isinstance(request.seat, Policy) else request.seat
        return await self.engine.sample(replace(request, seat=seat, batch=self.step))

    def clip(self, text: str, max_tokens: int) -> str:
        return self.engine.clip(text, max_tokens)


@contextmanager
def open_endpoint(rival: Rival, run: Path) -> Iterator[Endpoint | None]:
    """The server that plays B, once it is known to have the model; None where the rival is none."""
    if rival.url is None or rival.model is None:
        yield None
        return
    cache = CompletionCache(run / "rival", int(os.environ.get("RANK", "0")))
    with closing(Endpoint(rival.url, rival.model, cache, escape=escape)) as endpoint:
        endpoint.check()
        yield endpoint


def from_league(league: Sequence[Version], seed: int, step: int) -> Version:
    """The kept version of A that plays B for a whole step: a function of seed, step and the league."""
    return league[seed_for(seed, "league", step) % len(league)]


def next_league(league: tuple[Version, ...], version: Version, done: int, every: int) -> tuple[Version, ...]:
    """The league after `done` steps: A joins at its start and every so many steps, unless it has not moved."""
    return (*league, version) if done % every == 0 and version not in league else league


def masking(verify: Verify) -> Verify:
    """Judge completions, but not one that a machine failed to give: its verdict is `infra`, never wrong."""

    async def judge(problem: Problem, completion: Completion) -> Verdict:
        if completion.failure:
            return Verdict(False, False, Reason.INFRA, completion.failure)
        return await verify(problem, completion)

    return judge


def trained_streams(played: Played, game: Game) -> list[Stream]:
    """The streams that somebody learns from."""
    return [stream for stream in played.streams if game.learns(stream.policy)]


def check_answered(streams: Iterable[Stream], run: Path) -> None:
    """Stop before the update if the rival failed to answer most requests: the step is played again after a resume."""
    rows = [row for stream in streams if stream.policy is Policy.B for row in stream.rollouts()]
    failed = [row.completion.failure for row in rows if row.completion.failure]
    if 2 * len(failed) > len(rows):
        raise EngineError(
            f"the rival gave no answer to {len(failed)} of {len(rows)} requests of this step: {failed[0]}",
            fix=f"nothing was learnt from it; start the endpoint again, then: agon train {run} --resume",
        )
