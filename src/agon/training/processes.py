"""Several processes train as one: after every phase each reports how it went, and none goes on or stops alone.

A collective whose partner never comes waits for hours, and one that meets a different collective reads garbage. So
processes meet here before they call one. Reports go through a store and are polled from Python: unlike a collective,
the wait ends when a signal comes, when another process leaves, and when the first one is gone. Only a process that
dies between two meetings, inside a collective, can still make the others wait for it; work that is full of them runs
`together`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

from agon.errors import AgonError, RunError
from agon.interrupt import Interrupt, Interrupted
from agon.protocols import Store

T = TypeVar("T")
GRACE = 8.0
"""Seconds after a signal in which the others must report: launchers send SIGKILL after 30."""
SAVING = 60.0
"""Seconds that a process waits at its end for the first one to save."""
POLL, WATCH = 0.005, 0.5
"""Seconds between two looks at the store: while waiting, and while playing."""
STOP, LEFT, FAILED, SAVED = "stop", "left", "failed", "saved"
"""Keys of the store: a process stops; one left without a meeting, and why; one comes to a meeting with an error, and
which; the first one has saved."""


class Lost(RunError):
    """Another process does not answer any more: no collective may be called."""


class PeerError(RunError):
    """Another process failed; it reports the error itself."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a phase went on one process."""

    rank: int
    phase: str
    stops: bool = False
    """A signal came: the run saves and stops."""
    error: str | None = None
    fix: str = ""


class Processes:
    """The processes of a run, seen from one of them. One process alone needs no store."""

    def __init__(self, rank: int, size: int, interrupt: Interrupt, store: Store | None = None) -> None:
        self.rank, self.size = rank, size
        self.interrupt, self._store, self._meetings, self._asked = interrupt, store, 0, False
        self.idle: Callable[[], None] = lambda: None

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[], None]]:
        """Work of this process alone, then a meeting: it ends well on every process, or on none.

        Yields a function to call wherever the work may end early; it raises Interrupted when the run is to stop.
        """
        failure: Exception | None = None
        try:
            yield self._check
        except Lost:
            raise
        except Exception as error:
            # a signal reaches the engine too: what fails after one is taken for its consequence
            failure = Interrupted() if self.interrupt.asked else error
        self._settle(name, failure)

    def together(self, work: Callable[[], T]) -> T:
        """Run `work`, which holds collectives, in a thread of its own, so that the wait for it can end.

        When another process fails, raise its error; after a signal, give it some seconds. The thread may then be left
        behind: the run ends, and nothing that it saves is changed by a pass.
        """
        if self._store is None:
            return work()
        done, began = Future[T](), time.monotonic()
        thread = threading.Thread(target=_fulfil, args=(done, work), daemon=True)
        thread.start()
        try:
            while not wait([done], timeout=WATCH).done:
                self._look_after(began, self._store)
        except BaseException:
            # at the end the others close their connections, which ends it; a thread that outlives Python aborts it
            atexit.register(thread.join, GRACE)
            raise
        return done.result()

    def _look_after(self, began: float, store: Store) -> None:
        """Raise if the work that all do together cannot end well."""
        for key in filter(self._flagged, (FAILED, LEFT)):
            _raise_of([Report(**json.loads(store.get(key)))])
        self._ask_to_stop(store)
        asked = self.interrupt.asked
        if asked is not None and time.monotonic() - max(asked, began) > GRACE:
            raise Interrupted

    async def watching(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` until it is done, a signal comes, or another process stops."""
        others = asyncio.ensure_future(self._others_stop())
        others.add_done_callback(lambda task: None if task.cancelled() else self.interrupt.cancel())
        try:
            return await self.interrupt.watching(work)
        finally:
            others.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Tell the others about an error they cannot know of; wait until the first process has saved."""
        if self._store is None or isinstance(error, Lost):
            return
        with suppress(RuntimeError):
            if error is not None and not isinstance(error, PeerError):
                self._store.set(LEFT, json.dumps(asdict(_report(self.rank, "", error))))
                self._store.set(STOP, "")
            if not isinstance(error, KeyboardInterrupt):
                self._part(self._store)

    def _part(self, store: Store) -> None:
        """The others stay until the first process has saved; it stays, with the store, until they know."""
        if self.rank == 0:
            store.set(SAVED, "")
            self._wait([f"{SAVED}/{rank}" for rank in range(1, self.size)], GRACE)
        else:
            self._wait([SAVED], SAVING)
            store.set(f"{SAVED}/{self.rank}", "")

    def _check(self) -> None:
        """Raise Interrupted if a signal came or another process stops."""
        self.interrupt.check()
        if self._flagged(STOP):
            raise Interrupted

    async def _others_stop(self) -> None:
        """Return when another process stops, or cannot be asked any more; the next meeting tells which."""
        with suppress(Lost):
            while not self._flagged(STOP):
                self.idle()
                await asyncio.sleep(WATCH)

    def _flagged(self, key: str) -> bool:
        try:
            return self._store is not None and self._store.check([key])
        except RuntimeError as error:
            raise _lost("the first process is gone") from error

    def _settle(self, phase: str, failure: Exception | None) -> None:
        """Meet, and raise what the phase ends with: this process's own failure before that of another."""
        stops = isinstance(failure, Interrupted)
        try:
            reports = self._meet(_report(self.rank, phase, failure))
        except Lost:
            if failure is None or stops:
                raise
            raise failure from None
        if failure is not None and not stops:
            raise failure
        _raise_of(reports)

    def _meet(self, report: Report) -> Sequence[Report]:
        """The reports of all processes."""
        if self._store is None:
            return [report]
        try:
            return self._exchange(self._store, report)
        except RuntimeError as error:
            raise _lost("the first process is gone") from error

    def _exchange(self, store: Store, report: Report) -> Sequence[Report]:
        self._meetings += 1
        keys = [f"{self._meetings}/{rank}" for rank in range(self.size)]
        if report.stops or report.error:
            store.set(STOP, "")
        if report.error:
            store.set(FAILED, json.dumps(asdict(report)))
        store.set(keys[self.rank], json.dumps(asdict(report)))
        arrived = time.monotonic()
        while not store.check(keys):
            if store.check([LEFT]):
                return [Report(**json.loads(store.get(LEFT)))]
            self._ask_to_stop(store)
            self._give_up_after(arrived)
            if not report.error:
                self.idle()
            time.sleep(POLL)
        store.delete_key(f"{self._meetings - 2}/{self.rank}")  # all have read it: they came to the meeting after it
        return [Report(**json.loads(store.get(key))) for key in keys]

    def _ask_to_stop(self, store: Store) -> None:
        """A signal may reach this process alone, while it waits for others that draw."""
        if self.interrupt.asked is not None and not self._asked:
            self._asked = True
            store.set(STOP, "")

    def _give_up_after(self, arrived: float) -> None:
        """After a signal do not wait long: a launcher sends one to all when it finds a process dead."""
        asked = self.interrupt.asked
        if asked is not None and time.monotonic() - max(asked, arrived) > GRACE:
            raise _lost(f"another process did not answer within {GRACE:.0f} s of a signal")

    def _wait(self, keys: list[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._store is not None and not self._store.check(keys) and time.monotonic() < deadline:
            time.sleep(POLL)


def _fulfil(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)


def _report(rank: int, phase: str, failure: BaseException | None) -> Report:
    if failure is None:
        return Report(rank, phase)
    if isinstance(failure, Interrupted | KeyboardInterrupt):
        return Report(rank, phase, stops=True)
    if isinstance(failure, AgonError):
        return Report(rank, phase, error=failure.message, fix=failure.fix)
    return Report(rank, phase, error=f"{type(failure).__name__}: {failure}")


def _raise_of(reports: Sequence[Report]) -> None:
    """Raise what the reports of the others say, if not all is well."""
    if len({report.phase for report in reports}) > 1:
        raise RunError(f"processes are in different phases: {reports}", fix="report this: a run must not get here")
    for report in reports:
        if report.error:
            raise PeerError(f"process {report.rank} failed: {report.error}", fix=report.fix)
    if any(report.stops for report in reports):
        raise Interrupted


def _lost(reason: str) -> Lost:
    return Lost(f"{reason}; this one stops", fix="see its output above, then resume: agon train RUN --resume")
