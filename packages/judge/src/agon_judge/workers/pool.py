"""Worker processes for a check that may hang, crash or use too much memory: the caller sees only the outcome of a job.

A job has a deadline in CPU seconds of its worker, so that a busy machine does not turn a right answer into a timeout. A
worker that dies is replaced and its job is tried again: the outcome depends on the job, not on who killed a worker. The
pool may be used from any thread, from asyncio, and in a forked child, which gets workers of its own.

    outcome     when
    timeout     the job used up its deadline: it would do so again
    crashed     two workers died on this job without being killed
    infra       the machine failed: workers cannot be started, or this job lost too many of them to kills from outside
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future

from agon_judge.errors import JudgeError
from agon_judge.workers.messages import Counters, Inbox, Job, Limits, Outcome
from agon_judge.workers.supervisor import ServerSettings, Supervisor


class WorkerPool:
    """Calls a function, named as `package.module:function`, with strings in one of its worker processes.

    `setup` is given to `warm_up` of that module, which runs once before workers are forked. `environ` replaces the
    environment of the processes, of which only the paths of programs and libraries are kept otherwise.
    """

    def __init__(
        self, check: str, limits: Limits, *, setup: str | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.counters = Counters()
        self._server = ServerSettings(check, limits, setup, environ)
        self._closed = False
        self._supervisor: Supervisor | None = None
        self._finalizer: weakref.finalize[[], WorkerPool] | None = None
        self._inbox = Inbox(threading.Lock())
        _POOLS.add(self)

    def start(self) -> None:
        """Start the workers now rather than at the first job."""
        with self._inbox.lock:
            self._running()

    def submit(self, *args: str | None) -> Future[Outcome]:
        """The outcome of one call; unfinished calls with the same arguments share one job."""
        future: Future[Outcome] = Future()
        with self._inbox.lock:
            supervisor = self._running()
            job = self._inbox.pending.get(args)
            if job is None:
                job = self._inbox.pending[args] = Job(args)
                self._inbox.queue.append(job)
                self.counters.jobs += 1
            job.futures.append(future)
        supervisor.wake()
        return future

    def close(self) -> None:
        """End every worker; unfinished jobs end as `infra`."""
        with self._inbox.lock:
            self._closed = True
            supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop()

    def workers(self) -> tuple[int, ...]:
        """Process ids of the fork server and of the workers that are alive."""
        return self._supervisor.pids() if self._supervisor else ()

    def _running(self) -> Supervisor:
        if self._closed:
            raise JudgeError("the judge is closed", fix="create a new one")
        if self._supervisor is None or not self._supervisor.alive:
            try:
                self._supervisor = Supervisor(self._server, self._inbox, self.counters)
            except OSError as error:  # no file descriptor, process or memory left
                fix = "close other programs, or raise the limit (ulimit -n), then try again"
                raise JudgeError(f"cannot start the judge's workers: {error}", fix=fix) from error
            self._finalizer = weakref.finalize(self, self._supervisor.stop)
        return self._supervisor

    def _after_fork(self) -> None:
        """In a forked child: the workers are the parent's; our own start when they are needed."""
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._supervisor is not None:
            self._supervisor.detach()
        self._supervisor = self._finalizer = None
        self._inbox = Inbox(threading.Lock())


_POOLS: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _forked() -> None:
    for pool in list(_POOLS):
        pool._after_fork()


os.register_at_fork(after_in_child=_forked)
