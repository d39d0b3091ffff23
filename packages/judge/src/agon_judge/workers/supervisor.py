"""The thread that hands jobs to a pool's workers and decides what becomes of a job whose worker has died."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agon_judge.workers.channel import Channel, channel_of, socket_pair
from agon_judge.workers.messages import (
    Counters,
    Exited,
    Finished,
    Inbox,
    Job,
    Limits,
    Message,
    Outcome,
    Started,
    decode,
)

DEPTH = 4
"""Jobs that a worker may hold at once, so that the next one is there when it has answered."""
LOSSES = 20
"""Losses in a row after which a job, or every waiting job, is `infra`; a worker killed from outside is one loss."""
SEVERE = 7
"""Losses that a worker that stalls or a fork server that does not start counts for."""
_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
_SERVER = (
    "import json, sys; sys.path[:], *args = json.loads(sys.argv[1]); "
    "from agon_judge.workers.forkserver import main; main(*args)"
)


@dataclass(eq=False, slots=True)
class Worker:
    """Our end of a worker's channel, and the jobs in it by number; when the process dies, another takes its place."""

    link: Channel
    pid: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the workers call, their limits, and what `warm_up` and the environment of the processes are given."""

    check: str
    limits: Limits
    setup: str | None = None
    environ: Mapping[str, str] | None = None


class ServerProcess:
    """The fork server as a child process that does not import our main module, and what it writes to stderr."""

    def __init__(self, settings: ServerSettings, fds: list[int]) -> None:
        path = [str(Path(entry).absolute()) for entry in sys.path]
        keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        limits = settings.limits
        given = [path, os.getpid(), fds, settings.check, limits.deadline, limits.memory, limits.stall, settings.setup]
        environ = {**keep, "PYTHONHASHSEED": "0"}  # a verdict must not depend on the order of a set
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=fds,
            env=environ if settings.environ is None else settings.environ,
            cwd="/",
            start_new_session=True,
        )

    def end(self) -> tuple[str, int]:
        """Wait for the process, which is dead or terminated; its last line on stderr, and its exit code."""
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with self._errors as errors:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().split("\n")[-1]
        return last or "the fork server died", self.process.returncode


class Supervisor:
    """All state belongs to the thread, except for the inbox."""

    def __init__(self, settings: ServerSettings, inbox: Inbox, counters: Counters) -> None:
        self._settings, self._limits, self._inbox, self._counters = settings, settings.limits, inbox, counters
        self._workers: list[Worker] = []
        self._sent = self._losses = 0
        self._closing = False
        self._retries: deque[Job] = deque()
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._wakeup, selectors.EVENT_READ, lambda: self._wakeup.recv(4096))
        self._start_server()
        self._thread = threading.Thread(target=self._run, name="agon-judge", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look into the inbox; a socket that is full has woken it already."""
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    def stop(self) -> None:
        """End the thread, the fork server and every worker."""
        if not self._closing:
            self._closing = True
            self.wake()
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def pids(self) -> tuple[int, ...]:
        """Process ids of the fork server and its workers."""
        server, workers = self._server, self._workers
        return (server.process.pid, *(worker.pid for worker in workers if worker.pid)) if server else ()

    def detach(self) -> None:
        """In a forked child: close our copies of the parent's sockets, and touch nothing else."""
        for worker in self._workers:
            worker.link.close()
        for end in (self._wakeup, self._waker):
            end.close()
        self._selector.close()
        if self._server is not None:
            self._server.process.returncode = 0  # not our child: keep Popen from waiting for it

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select():
                    if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                        key.data()
                self._feed()
        finally:
            self._shut_down()

    def _start_server(self) -> None:
        pairs = [socket_pair() for _ in range(self._limits.workers)]
        fds = [theirs.fileno() for _, theirs in pairs]
        self._server: ServerProcess | None = ServerProcess(self._settings, fds)
        self._workers = [Worker(channel_of(ours)) for ours, _ in pairs]
        for worker, (_, theirs) in zip(self._workers, pairs, strict=True):
            theirs.close()
            worker.link.setblocking(False)
            self._selector.register(worker.link, selectors.EVENT_READ, lambda worker=worker: self._receive(worker))

    def _restart_server(self) -> None:
        """The fork server is dead, and its workers with it, through no fault of any job."""
        reason, status = self._end_server()
        self._losses += 1 if status in (0, *_OUTSIDE) else SEVERE  # 0 after a SIGTERM
        if self._losses < LOSSES:
            return self._start_server()
        self._losses = 0
        while job := self._next():  # a later job will try to start it again
            self._resolve(job, Outcome("infra", reason))

    def _end_server(self) -> tuple[str, int]:
        """Wait for the end of all processes and take their jobs back; what `ServerProcess.end` returns."""
        assert self._server is not None
        ended = self._server.end()
        self._server = None
        for worker in self._workers:
            self._selector.unregister(worker.link)
            worker.link.close()
            self._retry(list(worker.jobs.values()))
        self._counters.restarted += len(self._workers)
        self._workers = []
        return ended

    def _shut_down(self) -> None:
        """End everything; a job that arrives from here on belongs to the next supervisor."""
        if self._server is not None:
            self._server.process.terminate()
            self._end_server()
        with self._inbox.lock:
            self._closing = True
            self._retries.extend(self._inbox.queue)
            self._inbox.queue.clear()
        for job in self._retries:
            self._resolve(job, Outcome("infra", "the judge was closed"))
        for link in (self._wakeup, self._waker):
            link.close()
        self._selector.close()

    def _feed(self) -> None:
        """Hand out jobs, one to every worker before any gets a second."""
        if self._server is None and (self._retries or self._inbox.queue):
            self._start_server()
        for depth in range(DEPTH):
            for worker in self._workers:
                if len(worker.jobs) == depth and not self._send(worker):
                    return

    def _send(self, worker: Worker) -> bool:
        """Send the next job to a worker; False if there is none."""
        job = self._next()
        if job is None:
            return False
        self._sent += 1
        worker.jobs[self._sent] = job
        with contextlib.suppress(ConnectionError):  # a server that is gone is noticed by its end of file
            worker.link.send(json.dumps([self._sent, job.args]).encode())
        return True

    def _next(self) -> Job | None:
        if self._retries:
            return self._retries.popleft()
        with self._inbox.lock:
            return self._inbox.queue.popleft() if self._inbox.queue else None

    def _receive(self, worker: Worker) -> None:
        """Read what a worker sent, and the server about it; only the server's death ends the file."""
        while worker.link.fileno() >= 0:
            try:
                data = worker.link.receive()
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if data:
                self._handle(worker, decode(data))
            else:
                self._restart_server()

    def _handle(self, worker: Worker, message: Message) -> None:
        match message:
            case Started(pid):
                worker.pid = pid
            case Finished(number, name, detail):
                self._losses = 0
                self._resolve(worker.jobs.pop(number), Outcome(name, detail))
            case Exited():
                worker.pid = 0
                self._counters.restarted += 1
                self._reap(worker, message)

    def _reap(self, worker: Worker, death: Exited) -> None:
        """Finish the job that a worker died on, and hand its other jobs to all workers."""
        first = worker.jobs.pop(death.unread[0], None) if death.unread else None  # None if its outcome was sent
        jobs = [worker.jobs.pop(number) for number in death.unread[1:]]
        outcome = self._finish_job(first, death) if first else None
        if first and outcome:
            self._resolve(first, outcome)
        elif first:
            jobs.insert(0, first)
        self._retry(jobs)

    def _finish_job(self, job: Job, death: Exited) -> Outcome | None:
        """The outcome of the job that a worker died on; None if the job is to be tried again."""
        late = death.status == -signal.SIGPROF
        self._counters.killed += late or death.stalled
        if late:
            return Outcome("timeout", f"over {self._limits.deadline:g} CPU seconds")
        if death.status in _OUTSIDE:
            job.losses += SEVERE if death.stalled else 1
        else:
            job.crashes += 1
        if job.crashes > 1:
            return Outcome("crashed", "worker died twice")
        return Outcome("infra", f"lost its worker {job.losses} times") if job.losses >= LOSSES else None

    def _retry(self, jobs: list[Job]) -> None:
        self._counters.retried += len(jobs)
        self._retries.extendleft(reversed(jobs))

    def _resolve(self, job: Job, outcome: Outcome) -> None:
        with self._inbox.lock:
            self._inbox.pending.pop(job.args, None)
        for future in job.futures:
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)
