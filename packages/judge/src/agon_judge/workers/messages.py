"""What the pool, its supervisor and its processes share: limits, jobs, outcomes, counters and messages."""

from __future__ import annotations

import json
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import astuple, dataclass, field

Arguments = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many workers there are, and how many CPU seconds a job and bytes a process may use.

    `stall` is the number of deadlines of wall time after which a worker is killed whose CPU clock stands still.
    """

    workers: int
    deadline: float = 2.0
    memory: int = 2 << 30
    stall: float = 15


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the check returned, or what happened to it (`timeout`, `crashed`, `infra`)."""

    name: str
    detail: str = ""


@dataclass(eq=False, slots=True)
class Job:
    """One call of the check: the futures that wait for it, and how many workers died on it or were lost to others."""

    args: Arguments
    futures: list[Future[Outcome]] = field(default_factory=list)
    crashes: int = 0
    losses: int = 0


@dataclass
class Inbox:
    """New jobs for the supervisor, and all unfinished jobs by their arguments."""

    lock: threading.Lock
    queue: deque[Job] = field(default_factory=deque)
    pending: dict[Arguments, Job] = field(default_factory=dict)


@dataclass
class Counters:
    """What happened since the pool was created."""

    jobs: int = 0
    killed: int = 0
    restarted: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """A worker is running."""

    pid: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The worker has run the job with this number."""

    number: int
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The worker is dead; a negative status is a signal. `unread` are the jobs in its socket, its own first."""

    status: int
    stalled: bool
    unread: list[int]


Message = Started | Finished | Exited
_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in (Started, Finished, Exited)}


def encode(message: Message) -> bytes:
    """The message as JSON: its kind and its fields."""
    return json.dumps([type(message).__name__, *astuple(message)]).encode()


def decode(data: bytes) -> Message:
    """The message that `encode` wrote."""
    kind, *fields = json.loads(data)
    return _KINDS[kind](*fields)
