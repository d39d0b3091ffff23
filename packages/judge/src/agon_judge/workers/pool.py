"""Worker processes for a check that may hang, crash or use too much memory: the caller sees only the outcome of a job.

A thread for each worker hands it one job after the other. A job has a deadline in CPU seconds of its worker, so that a
busy machine does not turn a right answer into a timeout. A worker that dies is replaced and its job is tried again: the
outcome depends on the job, not on who killed a worker. The pool may be used from any thread, from asyncio, and in a
forked child, which gets workers of its own.

    outcome     when
    timeout     the job used up its deadline: it would do so again
    crashed     two workers died on this job without being killed
    infra       the machine failed: workers cannot be started, or this job lost too many of them to kills from outside
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agon_judge.errors import JudgeError
from agon_judge.workers.system import cpu_seconds
from agon_judge.workers.worker import LOOK, NUMBER, send

LOSSES = 20
"""Losses after which a job is `infra`, and losses in a row after which every waiting job is."""
SEVERE = 7
"""Losses that a worker that stalls or a fork server that does not start counts for; one that is killed is one loss."""
OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
CLOSED = "the judge was closed"
SERVER = (
    "import json, sys; sys.path[:], *args = json.loads(sys.argv[1]); "
    "from agon_judge.workers.worker import main; main(*args)"
)
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


@dataclass
class Counters:
    """What happened since the pool was created."""

    jobs: int = 0
    killed: int = 0
    restarted: int = 0
    retried: int = 0


@dataclass(eq=False, slots=True)
class Job:
    """One call of the check: the futures that wait for it, and how many workers died on it or were lost to others."""

    args: Arguments
    futures: list[Future[Outcome]] = field(default_factory=list)
    crashes: int = 0
    losses: int = 0


class ServerGone(Exception):
    """The fork server has died, and its workers with it."""


@dataclass(eq=False, slots=True)
class Worker:
    """A worker process, our end of its socket, and the server that forked it."""

    link: socket.socket
    pid: int
    server: Server


class Server:
    """The fork server as a child process that does not import our main module, with a control socket per worker."""

    def __init__(
        self, check: str, limits: Limits, setup: str | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        pairs = [socket.socketpair() for _ in range(limits.workers)]
        self.controls, fds = [ours for ours, _ in pairs], [theirs.fileno() for _, theirs in pairs]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        path = [str(Path(entry).absolute()) for entry in sys.path]
        keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        given = [path, os.getpid(), fds, check, limits.deadline, limits.memory, setup]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            pass_fds=fds,
            # a verdict must not depend on the order of a set
            env={**keep, "PYTHONHASHSEED": "0"} if environ is None else environ,
            cwd="/",
            start_new_session=True,
        )
        for _, theirs in pairs:
            theirs.close()

    def fork(self, place: int) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self.controls[place], [b"."], [theirs.fileno()])
                return Worker(ours, self.number(place), self)
            except (OSError, ServerGone) as error:
                ours.close()
                raise ServerGone from error

    def number(self, place: int) -> int:
        """The next process id or exit status on a control socket."""
        # a child that somebody forked meanwhile may hold a copy of the other end, so its closing is no sure sign
        while not readable(self.controls[place], seconds=LOOK):
            if self.process.poll() is not None:
                raise ServerGone
        data = self.controls[place].recv(NUMBER.size, socket.MSG_WAITALL)
        if len(data) < NUMBER.size:
            raise ServerGone
        (number,) = NUMBER.unpack(data)
        return int(number)

    def end(self, patience: float = 0.0) -> tuple[str, int]:
        """End the server and its workers; its last line on stderr, and its exit code. It may be ending by itself."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with self.errors as errors:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return last or "the fork server died", self.process.returncode

    def __del__(self) -> None:  # not before: another thread may be listening
        for control in self.controls:
            control.close()


def readable(*sockets: socket.socket, seconds: float) -> list[socket.socket]:
    """Those that have something to read or have ended, after so many seconds at most."""
    poll = select.poll()  # select() knows no descriptor above 1,023
    for each in sockets:
        poll.register(each, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(seconds * 1000)}
    return [each for each in sockets if each.fileno() in ready]


class WorkerPool:
    """Calls a function, named as `package.module:function`, with strings in one of its worker processes.

    `setup` is given to `warm_up` of that module, which runs once before workers are forked. `environ` replaces the
    environment of the processes, of which only the paths of programs and libraries are kept otherwise.
    """

    def __init__(
        self, check: str, limits: Limits, *, setup: str | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.counters, self.limits = Counters(), limits
        self._given = check, limits, setup, environ
        self._closed = False
        self._server: Server | None
        self._forget()
        _POOLS.add(self)

    def start(self) -> None:
        """Start the workers now rather than at the first job."""
        with self._lock:
            if self._closed:
                raise JudgeError(CLOSED, fix="create a new one")
            if self._threads:
                return
            self._running()
            for place in range(self.limits.workers):
                given = weakref.ref(self), self._jobs, place
                self._threads.append(threading.Thread(target=_serve, args=given, name="agon-judge", daemon=True))
                self._threads[-1].start()

    def submit(self, *args: str | None) -> Future[Outcome]:
        """The outcome of one call; unfinished calls with the same arguments share one job."""
        self.start()
        future: Future[Outcome] = Future()
        with self._lock:
            job = self._pending.get(args)
            if self._closed:
                raise JudgeError(CLOSED, fix="create a new one")
            if job is None:
                job = self._pending[args] = Job(args)
                self._jobs.put(job)
                self.counters.jobs += 1
            job.futures.append(future)
        return future

    def workers(self) -> tuple[int, ...]:
        """Process ids of the fork server and its workers."""
        server, workers = self._server, list(self._workers)
        return (server.process.pid, *(worker.pid for worker in workers if worker)) if server else ()

    def close(self) -> None:
        """End every worker; unfinished jobs end as `infra`."""
        with self._lock:
            self._closed, server, self._server = True, self._server, None
            pending = list(self._pending.values())
        for _ in self._threads:
            self._jobs.put(None)
        if server:
            server.end()
        for job in pending:
            self._resolve(job, Outcome("infra", CLOSED))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        for place in range(self.limits.workers):
            self._drop(place)

    def _serve_one(self, place: int, job: Job) -> None:
        """Try a job until its outcome depends on nothing but the job."""
        while self._pending.get(job.args) is job:
            try:
                outcome = self._try(place, job)
            except Exception as error:  # nobody awaits this thread
                outcome = Outcome("infra", f"{type(error).__name__}: {error}")
            if outcome:
                return self._resolve(job, outcome)
            self.counters.retried += 1

    def _try(self, place: int, job: Job) -> Outcome | None:
        """Give a job to a worker: its outcome, or None if it is to be tried again."""
        with self._lock:
            server = self._running()
        worker = self._workers[place]
        if worker and worker.server is not server:  # it was idle when its server died
            worker = None
            self._drop(place)
        try:
            worker = self._workers[place] = worker or server.fork(place)
            taken, stalled, answer = self._ask(server, place, worker, job)
            if answer:
                self._losses = 0
                return Outcome(*json.loads(answer))
            self._drop(place)
            status = server.number(place)
        except Exception as error:  # a bug leaves its worker with a job that nobody asks for: end them all
            self._drop(place)
            self._renew(server)
            if isinstance(error, ServerGone):
                return None
            raise
        self.counters.restarted += 1
        late = status == -signal.SIGPROF
        self.counters.killed += late or stalled
        if late:
            return Outcome("timeout", f"over {self.limits.deadline:g} CPU seconds")
        if taken and status in OUTSIDE:
            job.losses += SEVERE if stalled else 1
        elif taken:
            job.crashes += 1
        if job.crashes > 1:
            return Outcome("crashed", "worker died twice")
        return Outcome("infra", f"lost its worker {job.losses} times") if job.losses >= LOSSES else None

    def _ask(self, server: Server, place: int, worker: Worker, job: Job) -> tuple[bool, bool, bytes]:
        """Whether a worker was there to take the job, whether it stalled and was killed, and its answer if it lived.

        A worker that has a job and uses no CPU time for long is killed; one that uses too much is ended by its timer.
        """
        link, control = worker.link, server.controls[place]
        if readable(control, seconds=0):  # it died since its last job
            return False, False, b""
        patience, stalled = self.limits.stall * self.limits.deadline, False
        data, cpu, moved = b"", -1.0, time.monotonic()
        link.settimeout(patience)
        try:
            send(link, job.args)
            while not data.endswith(b"\n"):
                ready = readable(link, control, seconds=min(LOOK, patience))
                if link in ready:
                    data += (piece := link.recv(1 << 16))
                    if not piece:
                        break
                elif ready:  # who forks may leave the link open when it dies; the server says so in any case
                    break
                elif server.process.poll() is not None:
                    raise ServerGone
                elif (now := cpu_seconds(worker.pid)) != cpu:
                    cpu, moved = now, time.monotonic()
                elif stalled := time.monotonic() - moved > patience:
                    break
        except OSError as error:  # it died, and the server says how; or it does not even read
            stalled = isinstance(error, TimeoutError)
        if stalled:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        return True, stalled, data if data.endswith(b"\n") else b""

    def _drop(self, place: int) -> None:
        worker, self._workers[place] = self._workers[place], None
        if worker:
            worker.link.close()

    def _running(self) -> Server:
        """The fork server, started if there is none; the lock is held."""
        if self._server is None:
            if self._closed:
                raise JudgeError(CLOSED, fix="create a new one")
            try:
                self._server = Server(*self._given)
            except OSError as error:  # no file descriptor, process or memory left
                fix = "close other programs, or raise the limit (ulimit -n), then try again"
                raise JudgeError(f"cannot start the judge's workers: {error}", fix=fix) from error
        return self._server

    def _renew(self, server: Server) -> None:
        """A fork server has died, through no fault of any job; after too many in a row, what waits ends as `infra`."""
        with self._lock:
            if self._server is not server:  # another thread was here first, or the pool is closed
                return
            self._server = None
            reason, status = server.end(patience=5)
            self.counters.restarted += self.limits.workers
            self._losses += 1 if status in (0, *OUTSIDE) else SEVERE  # 0 after a SIGTERM
            pending = list(self._pending.values()) if self._losses >= LOSSES else []
        for job in pending:
            self._losses = 0  # a later job will try to start it again
            self._resolve(job, Outcome("infra", reason))

    def _resolve(self, job: Job, outcome: Outcome) -> None:
        with self._lock:
            if self._pending.get(job.args) is job:
                del self._pending[job.args]
            futures, job.futures = job.futures, []
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)

    def _forget(self) -> None:
        """Begin without processes: also in a forked child, where they are the parent's."""
        self._lock = threading.Lock()
        self._server = None
        self._workers: list[Worker | None] = [None] * self.limits.workers
        self._losses = 0
        self._threads: list[threading.Thread] = []
        self._pending: dict[Arguments, Job] = {}
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def _after_fork(self) -> None:
        """In a forked child: close our copies of the parent's sockets; our own workers start when they are needed."""
        for worker in filter(None, self._workers):
            worker.link.close()
        if self._server:
            for control in self._server.controls:
                control.close()
            self._server.process.returncode = 0  # not our child: keep Popen from waiting for it
        self._forget()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def _serve(pool: weakref.ref[WorkerPool], jobs: queue.SimpleQueue[Job | None], place: int) -> None:
    """Hand jobs to one worker, as long as somebody holds the pool."""
    while (job := jobs.get()) and (held := pool()):
        held._serve_one(place, job)
        del held


_POOLS: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _forked() -> None:
    for pool in list(_POOLS):
        pool._after_fork()


os.register_at_fork(after_in_child=_forked)
