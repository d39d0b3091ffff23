"""The thread that keeps a pool's workers: it feeds them, reads the clock, has late ones killed and buries the dead."""

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
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon.verify.workers.pool import Counters, Inbox, Limits

DEPTH = 4
"""Jobs on the way to one worker: the next one is there when it has answered."""
STALL = 15
"""Deadlines of wall time after which a worker whose CPU clock stands still is given up; a slow one is waited for."""
PATIENCE = 3
"""Failures in a row to start a worker before everything that waits ends as `infra`."""
LOSSES = 20
"""Processes in a row that we, or one job, may lose to somebody else's kill before it is `infra`."""
MESSAGE = 1 << 20
_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
_NURSERY = (
    "import sys; sys.path[:] = sys.argv[4:]; from agon.verify.workers.forkserver import main; "
    "main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the function said, or what happened to it (`timeout`, `crashed`, `infra`)."""

    name: str
    detail: str = ""


@dataclass(eq=False, slots=True)
class Job:
    """One call: who waits for it, and how often its worker died under it."""

    args: tuple[str | None, ...]
    futures: list[Future[Outcome]] = field(default_factory=list)
    crashes: int = 0
    losses: int = 0


@dataclass(eq=False, slots=True)
class Worker:
    """A process and the jobs sent to it, and the clock of the oldest job.

    `spent` is the CPU time of the process before that job, `used` the job's own at `checked`; `moved` is when it grew.
    """

    number: int
    link: socket.socket
    pid: int = 0
    greeted: bool = False
    jobs: deque[Job] = field(default_factory=deque)
    spent: float = 0.0
    used: float = 0.0
    checked: float = 0.0
    moved: float = 0.0
    doomed: Job | None = None
    cause: str = ""

    def restart_clock(self) -> None:
        """The oldest job begins now."""
        self.used, self.checked, self.moved = 0.0, time.monotonic(), time.monotonic()

    def check_clock(self) -> None:
        """Read the CPU time of the oldest job."""
        used, self.checked = _cpu_seconds(self.pid) - self.spent, time.monotonic()
        if used > self.used:
            self.used, self.moved = used, self.checked

    @property
    def open(self) -> bool:
        """Whether it can be given a job."""
        return self.greeted and self.doomed is None and self.link.fileno() >= 0


class Launched:
    """The nursery as a child process, with what it writes to stderr."""

    def __init__(self, function: str, memory: int, fd: int) -> None:
        path = [str(Path(entry).absolute()) for entry in sys.path]
        keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _NURSERY, str(fd), function, str(memory), *path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            pass_fds=[fd],
            env={**keep, "PYTHONHASHSEED": "0"},
            cwd="/",
            start_new_session=True,
        )

    def end(self) -> tuple[str, int]:
        """Wait for it (its socket is closed already), kill it if need be, and give its last words and exit code."""
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with self.errors as errors:
            errors.seek(0)
            words = errors.read().decode(errors="replace").strip().split("\n")[-1]
        return words or "the verifier process died", self.process.returncode


class Crew:
    """All state belongs to the thread, but for the inbox."""

    def __init__(self, function: str, limits: Limits, inbox: Inbox, counters: Counters) -> None:
        self._function, self._limits, self._inbox, self._counters = function, limits, inbox, counters
        self._workers: dict[int, Worker] = {}
        self._born, self._failures, self._closing = 0, 0.0, False
        self._again: deque[Job] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._ring.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, self._on_bell)
        self._start_nursery()
        self._thread = threading.Thread(target=self._run, name="agon-verify", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell the thread that there is something in the inbox; a full or closed bell need not ring."""
        with contextlib.suppress(OSError):
            self._ring.send(b".")

    def stop(self) -> None:
        """End the thread, the nursery and every worker."""
        if not self._closing:
            self._closing = True
            self.wake()
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def pids(self) -> tuple[int, ...]:
        """Process ids of the nursery and its workers."""
        nursery, workers = self._nursery, list(self._workers.values())
        return (nursery.process.pid, *(worker.pid for worker in workers if worker.pid)) if nursery else ()

    def let_go(self) -> None:
        """In a forked child: close our copies of the parent's sockets, and touch nothing else."""
        for link in (self._control, self._bell, self._ring, *(worker.link for worker in self._workers.values())):
            link.close()
        self._selector.close()
        if self._nursery is not None:
            self._nursery.process.returncode = 0  # not our child: keep Popen from waiting for it

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select(self._patience()):
                    if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                        key.data()
                self._watch()
                self._feed()
        finally:
            self._shut()

    def _on_bell(self) -> None:
        self._bell.recv(4096)

    def _start_nursery(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            self._nursery: Launched | None = Launched(self._function, self._limits.memory, theirs.fileno())
        self._selector.register(self._control, selectors.EVENT_READ, self._on_control)

    def _on_control(self) -> None:
        for message in self._messages(self._control):
            if message is None:
                self._lost_nursery()
            elif "ready" in message:
                for _ in range(self._limits.workers):
                    self._spawn()
            elif "born" in message and message["born"] in self._workers:
                self._workers[message["born"]].pid = message["pid"]
            elif "dead" in message:
                self._bury(message["dead"], message["status"])

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._born += 1
        worker = Worker(self._born, ours)
        self._workers[worker.number] = worker
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_worker(worker))
        with theirs:
            self._ask({"fork": worker.number}, theirs.fileno())

    def _ask(self, wish: dict[str, int], *fds: int) -> None:
        with contextlib.suppress(OSError):  # a nursery that is gone is noticed by its end of file
            socket.send_fds(self._control, [json.dumps(wish).encode()], list(fds))

    def _on_worker(self, worker: Worker) -> None:
        for message in self._messages(worker.link):
            if message is None:
                self._hang_up(worker)
            elif "hello" in message:
                worker.greeted, worker.spent = True, message["hello"]
            else:
                self._failures = 0.0
                worker.spent = message["cpu"]
                worker.restart_clock()
                self._resolve(worker.jobs.popleft(), Outcome(message["outcome"], message["detail"]))

    def _feed(self) -> None:
        """Hand out jobs, one per worker before a second to any; after a failure, start anew for them."""
        if self._nursery is None and self._waiting():
            self._start_nursery()
        for depth in range(DEPTH):
            for worker in list(self._workers.values()):
                if worker.open and len(worker.jobs) == depth:
                    job = self._next()
                    if job is None:
                        return
                    self._send(worker, job)

    def _waiting(self) -> bool:
        return bool(self._again or self._inbox.queue)

    def _next(self) -> Job | None:
        if self._again:
            return self._again.popleft()
        with self._inbox.lock:
            return self._inbox.queue.popleft() if self._inbox.queue else None

    def _send(self, worker: Worker, job: Job) -> None:
        if not worker.jobs:
            worker.restart_clock()
        try:
            worker.link.send(json.dumps(job.args).encode())
            worker.jobs.append(job)
        except OSError:
            self._again.appendleft(job)
            self._hang_up(worker)

    def _watch(self) -> None:
        """Doom the workers whose job is over its deadline, and those that do not move at all."""
        for worker in self._workers.values():
            if not worker.jobs or worker.doomed or not worker.pid or self._left(worker) > 0:
                continue
            worker.check_clock()
            if worker.used >= self._limits.deadline:
                self._doom(worker, "timeout")
            elif worker.checked - worker.moved > STALL * self._limits.deadline:
                self._doom(worker, "stalled")

    def _left(self, worker: Worker) -> float:
        """Wall seconds before the oldest job can be over its deadline: its CPU clock is no faster than ours."""
        return worker.checked + self._limits.deadline - worker.used - time.monotonic()

    def _patience(self) -> float | None:
        busy = [self._left(worker) for worker in self._workers.values() if worker.jobs and not worker.doomed]
        return max(min(busy), 0.02) if busy else None

    def _doom(self, worker: Worker, cause: str) -> None:
        worker.doomed, worker.cause = worker.jobs[0], cause
        self._counters.killed += 1
        self._ask({"kill": worker.pid})

    def _bury(self, pid: int, status: int) -> None:
        """A worker is dead: settle the job it died on, hand the others on, replace it."""
        worker = next((worker for worker in self._workers.values() if worker.pid == pid), None)
        if worker is None:
            return
        if worker.link.fileno() >= 0:
            self._on_worker(worker)
        self._hang_up(worker)
        del self._workers[worker.number]
        self._settle(worker, status)
        self._counters.restarted += 1
        if worker.greeted or self._bear("workers do not start", status):
            self._spawn()

    def _settle(self, worker: Worker, status: int) -> None:
        jobs = list(worker.jobs)
        first = jobs[0] if jobs else None
        if first is not None and first is worker.doomed and worker.cause == "timeout":
            self._resolve(jobs.pop(0), Outcome("timeout", f"over {self._limits.deadline:g} CPU seconds"))
        elif first is not None and worker.doomed is None and status not in _OUTSIDE:
            first.crashes += 1
        elif first is not None:
            first.losses += LOSSES // PATIENCE + 1 if worker.cause == "stalled" else 1
        if first is not None and first.crashes > 1:
            self._resolve(jobs.pop(0), Outcome("crashed", "worker died twice"))
        elif first is not None and first.losses >= LOSSES:
            self._resolve(jobs.pop(0), Outcome("infra", f"lost its worker {first.losses} times"))
        self._counters.retried += len(jobs)
        self._again.extendleft(reversed(jobs))

    def _lost_nursery(self) -> None:
        """The nursery is dead and its workers with it: nobody is to blame; start again."""
        reason, status = self._end_nursery()
        if self._bear(reason, status):
            self._start_nursery()

    def _bear(self, reason: str, status: int) -> bool:
        """Whether to try again after a failed start; if not, all jobs end as `infra`, and a later one tries anew."""
        self._failures += PATIENCE / LOSSES if status in _OUTSIDE else 1
        if self._failures < PATIENCE:
            return True
        self._failures = 0.0
        self._end_nursery()
        while job := self._next():
            self._resolve(job, Outcome("infra", reason))
        return False

    def _end_nursery(self) -> tuple[str, int]:
        """End nursery and workers, take their jobs back, and say what the nursery complained of."""
        if self._nursery is None:
            return "", 0
        for worker in self._workers.values():
            self._hang_up(worker)
            self._again.extend(worker.jobs)
            self._counters.retried += len(worker.jobs)
        self._counters.restarted += len(self._workers)
        self._workers.clear()
        self._selector.unregister(self._control)
        self._control.close()
        nursery, self._nursery = self._nursery, None
        return nursery.end()

    def _shut(self) -> None:
        """End everything; what comes into the inbox from here on is another crew's."""
        self._end_nursery()
        with self._inbox.lock:
            self._closing = True
            self._again.extend(self._inbox.queue)
            self._inbox.queue.clear()
        for job in self._again:
            self._resolve(job, Outcome("infra", "the verifier was closed"))
        for link in (self._bell, self._ring):
            link.close()
        self._selector.close()

    def _hang_up(self, worker: Worker) -> None:
        if worker.link.fileno() >= 0:
            self._selector.unregister(worker.link)
            worker.link.close()

    def _resolve(self, job: Job, outcome: Outcome) -> None:
        with self._inbox.lock:
            self._inbox.open.pop(job.args, None)
        for future in job.futures:
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)

    @staticmethod
    def _messages(link: socket.socket) -> list[dict[str, Any] | None]:
        """All messages that wait on a socket; None at the end of file."""
        found: list[dict[str, Any] | None] = []
        while True:
            try:
                data = link.recv(MESSAGE)
            except BlockingIOError:
                break
            except ConnectionError:
                data = b""
            found.append(json.loads(data) if data else None)
            if not data:
                break
        return found


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
