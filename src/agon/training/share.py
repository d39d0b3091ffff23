"""Who draws and who learns: one process of a machine draws for all its engines, and every process learns.

A draw goes to whichever engine is least busy, so no engine is idle while the problems of another process are drawn, and
the number of engines need not be that of the processes. Rows then go to the processes by their tokens. Seeds come from
names, so the bouts are the same whoever draws them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from agon.config import ClusterConfig, SamplerConfig
from agon.errors import EngineError
from agon.types import Completion, Played, Policy, Prompt, Request, Rollout, Stream, StreamName, Version

REPORT = "report this: a run must not get here"


def draws(settings: SamplerConfig, cluster: ClusterConfig) -> bool:
    """Whether this process draws: the first of all from servers and clusters, the first of a machine from its engines.

    With engine hf each does, as the model is in the process itself. Launchers set both variables.
    """
    if settings.engine != "vllm":
        return True
    elsewhere = settings.urls or (cluster.engine != "none" and cluster.samplers)
    return os.environ.get("RANK" if elsewhere else "LOCAL_RANK", "0") == "0"


class DrawnElsewhere:
    """The sampler of a process for which another one draws."""

    async def sample(self, request: Request) -> Completion:
        raise EngineError("this process does not draw", fix=REPORT)

    def publish(self, version: Version, folder: Path) -> None:
        """The process that draws publishes."""

    def pin(self, version: Version, folder: Path) -> None:
        """The process that draws pins."""

    def clip(self, text: str, max_tokens: int) -> str:
        raise EngineError("this process does not draw", fix=REPORT)

    def close(self) -> None: ...


def rows_for_learning(played: Played) -> list[Stream]:
    """The streams of a play without texts and tests, which no learner reads: what is sent between processes."""

    def strip(row: Rollout) -> Rollout:
        problem = replace(row.problem, tests=None)
        return replace(row, problem=problem, prompt=Prompt(()), completion=replace(row.completion, text=""))

    return [
        replace(stream, groups=tuple(tuple(map(strip, group)) for group in stream.groups)) for stream in played.streams
    ]


def share(streams: Iterable[Stream], rank: int, processes: int) -> list[Stream]:
    """The rows of one process, of all that were played: those of every process have about as many tokens to learn from.

    The longest rows first, each to the process with the fewest tokens so far.
    """
    loads, own = [0] * processes, dict[tuple[StreamName, Policy], list[Rollout]]()
    rows = [(stream, row) for stream in streams for row in stream.rollouts()]
    for stream, row in sorted(rows, key=lambda pair: -_tokens(pair[1])):
        least = loads.index(min(loads))
        loads[least] += _tokens(row)
        mine = own.setdefault((stream.name, stream.policy), [])
        if least == rank:
            mine.append(row)
    return [Stream(name, policy, (tuple(mine),)) for (name, policy), mine in own.items()]


def _tokens(row: Rollout) -> int:
    """Tokens that the update computes: none of a masked row."""
    tokens = row.completion.tokens
    return 0 if row.advantage is None or tokens is None else tokens.size
