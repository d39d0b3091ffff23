"""Worker processes with a clock: what runs in them can hang, crash or eat memory, and the caller only sees an outcome.

One thread of the caller's process watches all workers; it does no mathematics. A job has its own deadline, in CPU
seconds of its worker, so that a busy machine does not turn a right answer into a timeout; the thread reads the clock
from outside and has the worker killed. A worker that dies on its own is replaced and its job is tried again: what
happens to a job depends on the job, not on who killed a worker. The pool may be used from any thread, from asyncio, and
in a forked child, which gets workers of its own.

    outcome     when
    timeout     the job used up its deadline: it would do so again
    crashed     the job's worker died on its own twice, each time on this job
    infra       the machine failed: workers cannot be started, or this job lost its worker to others too often
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from agon.errors import VerifierError
from agon.verify.workers.supervisor import Crew, Job, Outcome


@dataclass
class Counters:
    """What happened to the workers since the pool was made."""

    jobs: int = 0
    killed: int = 0
    restarted: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """CPU seconds and bytes that a job may use, and how many processes there are."""

    workers: int
    deadline: float = 2.0
    memory: int = 2 << 30


class Pool:
    """`submit(*args)` calls a function of JSON-able arguments in some worker and gives a future of its outcome."""

    def __init__(self, function: str, limits: Limits) -> None:
        self.counters = Counters()
        self._function, self._limits = function, limits
        self._closed = False
        self._crew: Crew | None = None
        self._finalizer: weakref.finalize[[], Pool] | None = None
        self._lock = threading.Lock()
        self._inbox = Inbox(self._lock)
        _POOLS.add(self)

    def start(self) -> None:
        """Start the workers now rather than at the first job."""
        with self._lock:
            self._running()

    def submit(self, *args: str | None) -> Future[Outcome]:
        """The outcome of one call; calls with the same arguments that are under way share one job."""
        future: Future[Outcome] = Future()
        with self._lock:
            crew = self._running()
            job = self._inbox.open.get(args)
            if job is None:
                job = self._inbox.open[args] = Job(args)
                self._inbox.queue.append(job)
                self.counters.jobs += 1
            job.futures.append(future)
        crew.wake()
        return future

    def close(self) -> None:
        """End every worker; jobs under way end as `infra`."""
        with self._lock:
            self._closed = True
            crew, self._crew = self._crew, None
        if crew is not None:
            crew.stop()

    def workers(self) -> tuple[int, ...]:
        """Process ids of the nursery and of the workers that are alive."""
        return self._crew.pids() if self._crew else ()

    def _running(self) -> Crew:
        if self._closed:
            raise VerifierError("the verifier is closed", fix="make a new one with load_verifier()")
        if self._crew is None or not self._crew.alive:
            self._crew = Crew(self._function, self._limits, self._inbox, self.counters)
            self._finalizer = weakref.finalize(self, self._crew.stop)
        return self._crew

    def _after_fork(self) -> None:
        """In a forked child: the workers are the parent's. Let go of them; our own start when needed."""
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._crew is not None:
            self._crew.let_go()
        self._crew = self._finalizer = None
        self._lock = threading.Lock()
        self._inbox = Inbox(self._lock)


@dataclass
class Inbox:
    """Jobs on their way to the crew, under the pool's lock."""

    lock: threading.Lock
    queue: deque[Job] = field(default_factory=deque)
    open: dict[tuple[str | None, ...], Job] = field(default_factory=dict)


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forked() -> None:
    for pool in list(_POOLS):
        pool._after_fork()


os.register_at_fork(after_in_child=_forked)
