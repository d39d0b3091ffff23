"""Workers that may fail, used as one: work goes to the least busy worker, and a worker that fails is restarted.

A worker that dies, hangs or crawls is taken down: everybody who waits for it gets WorkerDown at once and may try
another worker, while it is restarted in the background. A worker that fails too often is put aside with a reason, which
callers get once no worker is left. Engines (`engine/fleet.py`) and servers behind the gateway
(`deploy/serve/replicas.py`) are such workers. A pool belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")
W = TypeVar("W", bound="Worker")
Event = Literal["failed", "down", "not ready", "up", "admitted", "aside"]


class WorkerDown(Exception):
    """The worker died, hangs, crawls or does not answer: worth another try, unlike a request that it refused."""

    gone = True
    """Whether one such failure takes the worker down and ends all that wait for it. If not, several take it down."""


class PoolStopped(Exception):
    """The pool was stopped: nothing that still waits for a worker will get one."""


class State(StrEnum):
    """Where a worker stands: not running, running but not yet checked, working for everybody, or given up."""

    DOWN = "down"
    CHECKING = "checking"
    UP = "up"
    ASIDE = "aside"


class Worker:
    """One worker of a pool: a subclass starts it, stops it and counts its progress. Any of these may raise WorkerDown.

    `number` is its place in the pool. It takes `slots` tasks at once. While it has work it must make `least` progress
    in `patience` seconds, or `slack` times as much in `slack` times as long. `life` counts its starts: a failure
    belongs to one life. `failures` counts failed tasks and starts until a subclass forgives them and sets it to 0;
    `reason` is the last of them.
    """

    kind, unit = "worker", "tasks"
    """What it is, and what its progress is counted in."""

    def __init__(self, number: int, *, patience: float, least: float = 1.0, slots: float = math.inf) -> None:
        self.number, self.patience, self.least, self.slack, self.slots = number, patience, least, 1, slots
        self.state, self.reason = State.DOWN, ""
        self.life = self.busy = self.done = self.failures = 0
        self._down: asyncio.Future[WorkerDown] | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"

    async def start(self) -> None:
        """Start it; return when it can work."""

    async def stop(self) -> None:
        """Stop it, dead or alive, and leave nothing behind; called before every restart and at the end."""

    async def progress(self) -> int:
        """Work done so far."""
        return self.done

    @property
    def has_work(self) -> bool:
        """Whether it must make progress."""
        return self.busy > 0

    @property
    def runs(self) -> bool:
        """Whether it can be asked anything."""
        return self.state in (State.CHECKING, State.UP)

    async def unless_down(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work of this worker; stop waiting as soon as the worker is gone."""
        assert self._down is not None, "the worker was started"
        down, task = self._down, asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {task, down}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and down.result().gone:
                raise WorkerDown(str(down.result()))
            return await task
        finally:  # it is not awaited: what hangs may also hang while it is cancelled
            task.cancel()
            task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work that shows no progress, as long as the worker's patience lasts."""
        try:
            async with asyncio.timeout(self.patience):
                return await work
        except TimeoutError:
            raise WorkerDown(f"no answer within {self.patience:.0f} s") from None


class Wanted(NamedTuple):
    """The worker that a task asks for: one that is able; `avoid` only if there is no other."""

    able: Callable[[Any], bool] = lambda worker: True
    urgent: bool = False
    avoid: Worker | None = None


ANY = Wanted()


class Pool(Generic[W]):
    """Hands out workers and keeps them running.

    A worker is restarted after `pauses` seconds, of which the last repeats, and put aside after more than `most`
    failures. With `gated`, a started worker is handed out only after `admit`. While `may_start` is clear, none is
    started; the next task sets it.
    """

    def __init__(
        self, members: Sequence[W], *, pauses: Sequence[float], most: float = math.inf, tolerance: int = 1
    ) -> None:
        self.members, self.pauses, self.most, self.tolerance = members, pauses, most, tolerance
        self.gated, self.may_start, self._changed = False, asyncio.Event(), asyncio.Event()
        self._waiting = dict[asyncio.Future[W], Wanted]()
        self._tasks = list[asyncio.Task[None]]()
        self._last: tuple[W, Exception] | None = None
        self._stopped = False

    def report(self, worker: W, event: Event) -> None:
        """Called when something happens to a worker; `worker.reason` says why."""

    def error(self, worker: W, cause: Exception) -> Exception:
        """What callers get when the last worker was put aside."""
        return WorkerDown(f"{worker} was given up: {cause}")

    # -- work ----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def use(self, wanted: Wanted = ANY, *, on: int | None = None, wait: float | None = None) -> AsyncIterator[W]:
        """The least busy worker that is up and has a free slot; waits for one, urgent tasks first.

        TimeoutError after `wait` seconds. With `on`, the worker of that number, up or checking, or WorkerDown.
        WorkerDown inside the block counts against the worker. PoolStopped once the pool was stopped.
        """
        self.may_start.set()
        if on is None:
            async with asyncio.timeout(wait):
                worker = await self._free(wanted)
        elif (worker := self.members[on]).runs:
            worker.busy += 1
        else:
            raise WorkerDown(f"{worker} is {worker.state}")
        life = worker.life
        try:
            yield worker
            worker.done += 1
        except WorkerDown as failure:
            self._fail(worker, life, failure)
            raise
        finally:
            self._release(worker)

    async def each(self, work: Callable[[W], Awaitable[T]]) -> list[T]:
        """Do something on every worker that runs; the results of those that did not fail."""

        async def one(worker: W) -> T | WorkerDown:
            life = worker.life
            try:
                return await work(worker)
            except WorkerDown as failure:
                self._fail(worker, life, failure)
                return failure

        running = [one(worker) for worker in self.members if worker.runs]
        results = await asyncio.gather(*running, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, WorkerDown):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds of the workers; raise why when none is left."""
        while not holds():
            self._demand_one()
            await self._changed.wait()

    async def _free(self, wanted: Wanted) -> W:
        """Wait for a worker, and count it as busy."""
        while not (worker := self._best(wanted)):
            self._demand_one()
            found: asyncio.Future[W] = asyncio.get_running_loop().create_future()
            self._waiting[found] = wanted
            try:
                worker = await found
            except asyncio.CancelledError:
                if found.done() and not found.cancelled():
                    self._release(found.result())
                raise
            finally:
                del self._waiting[found]
            if worker.state is State.UP:
                return worker
            self._release(worker)  # it failed since it was handed out
        worker.busy += 1
        return worker

    def _best(self, wanted: Wanted) -> W | None:
        able = [worker for worker in self._with_slots() if wanted.able(worker)]
        return min(able, key=lambda worker: (worker is wanted.avoid, worker.busy, worker.done), default=None)

    def _with_slots(self) -> list[W]:
        return [worker for worker in self.members if worker.state is State.UP and worker.busy < worker.slots]

    def _release(self, worker: W) -> None:
        worker.busy -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        """Give workers to tasks that wait, urgent ones first.

        This runs after every change that may let a task begin, at the latest in the next turn of the loop. A task that
        still waits then cannot begin, so a new one need not look who is ahead of it.
        """
        for found, wanted in sorted(self._waiting.items(), key=lambda item: not item[1].urgent):
            if not self._with_slots():
                return
            if not found.done() and (worker := self._best(wanted)):
                worker.busy += 1
                found.set_result(worker)

    def _notify(self) -> None:
        """Wake everybody who waits for workers to change."""
        self._changed.set()
        self._changed = asyncio.Event()
        # later, so that workers that come up together share the tasks that wait
        asyncio.get_running_loop().call_soon(self._hand_out)

    def _demand_one(self) -> None:
        if self._stopped:
            raise PoolStopped
        if self._last and all(worker.state is State.ASIDE for worker in self.members):
            raise self.error(*self._last)

    # -- lives of a worker ---------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start all workers and keep them running, in the background; a second call does nothing."""
        self.may_start.set()
        self._tasks = self._tasks or [
            asyncio.get_running_loop().create_task(self._keep(worker)) for worker in self.members
        ]

    async def _keep(self, worker: W) -> None:
        """Start a worker and watch it; when it fails, start it again, until it has failed too often."""
        tries = 0
        while worker.state is State.DOWN:
            try:
                if tries:
                    await worker.stop()
                await self.may_start.wait()
                await worker.start()
                if worker.state is State.DOWN:  # else it was put aside meanwhile
                    tries = 0
                    await self._watch(worker)
            except WorkerDown as failure:
                known, worker.reason = worker.reason == str(failure), str(failure)
                worker.failures += 1
                if not known:
                    self.report(worker, "not ready")
                self._notify()
            except Exception as error:  # nobody awaits this: all who wait for the worker would hang
                await self.put_aside(worker.number, error)
            await asyncio.sleep(self.pauses[min(tries, len(self.pauses) - 1)])
            tries += 1
            if worker.failures > self.most:
                await self.put_aside(worker.number, WorkerDown(worker.reason))
        await worker.stop()
        self._notify()

    async def _watch(self, worker: W) -> None:
        """Hand a worker out until it is down; take it down when it has work and makes next to no progress."""
        loop, tick = asyncio.get_running_loop(), worker.patience / 8
        worker.life, worker._down = worker.life + 1, loop.create_future()
        worker.state = State.CHECKING if self.gated else State.UP
        self.report(worker, "up")
        self._notify()
        life, down = worker.life, worker._down
        try:
            waited, seen, slack = 0.0, await worker.progress(), worker.slack
            before = loop.time()
            while not (await asyncio.wait({down}, timeout=tick))[0]:
                # a long wait means that this process was frozen, which says nothing about the worker
                waited += min(loop.time() - before, 2 * tick)
                made = await worker.progress()
                if not worker.has_work or slack != worker.slack or made - seen >= slack * worker.least:
                    waited, seen, slack = 0.0, made, worker.slack
                elif waited >= slack * worker.patience:
                    raise WorkerDown(f"{made - seen} {worker.unit} in {waited:.0f} s")
                before = loop.time()
        except WorkerDown as failure:
            self._fail(worker, life, failure)
        except Exception as error:  # a worker that hangs unwatched would be waited for without end
            self._fail(worker, life, WorkerDown(f"cannot watch {worker}: {error!r}"))

    def _fail(self, worker: W, life: int, failure: WorkerDown) -> None:
        """Count a failure; take the worker down, once for all whose tasks failed in the same life."""
        if worker.runs and worker.life == life:
            worker.failures, worker.reason = worker.failures + 1, str(failure)
            self.report(worker, "failed")
            if failure.gone or worker.failures >= self.tolerance:
                self._end(worker, State.DOWN, failure)
                self.report(worker, "down")
                self._notify()

    def _end(self, worker: W, state: State, failure: WorkerDown) -> None:
        worker.state = state
        if worker._down and not worker._down.done():
            worker._down.set_result(failure)

    def _look_again(self, aside: W) -> None:
        """Let every waiting task see that a worker is gone for good: there may be none left."""
        self._notify()
        for found in self._waiting:
            if not found.done():
                aside.busy += 1
                found.set_result(aside)

    # -- what the owner decides ----------------------------------------------------------------------------------------

    async def returned(self) -> list[int]:
        """Wait for workers that wait for `admit`; their numbers."""
        await self.until(lambda: any(worker.state is State.CHECKING for worker in self.members))
        return [worker.number for worker in self.members if worker.state is State.CHECKING]

    async def admit(self, number: int, life: int) -> None:
        """Hand a worker out from now on, unless it was restarted since it was checked."""
        worker = self.members[number]
        if worker.state is State.CHECKING and worker.life == life:
            worker.state = State.UP
            self.report(worker, "admitted")
            self._notify()

    async def put_aside(self, number: int, cause: Exception) -> None:
        """Never hand a worker out again."""
        worker = self.members[number]
        if worker.state is not State.ASIDE:
            self._last, worker.reason = (worker, cause), str(self.error(worker, cause))
            self._end(worker, State.ASIDE, WorkerDown(worker.reason))
            self.report(worker, "aside")
            self._look_again(worker)

    def give_up(self) -> None:
        """Restart no worker any more: the run stops, and a signal may have ended the workers too."""
        self.most = 0

    async def stop(self) -> None:
        """Stop every worker and leave nothing behind; what still waits gets PoolStopped."""
        self._stopped = True
        for worker in self.members:  # one that is aside is not started again, even if its task ignores the cancellation
            self._end(worker, State.ASIDE, WorkerDown("the pool was stopped"))
            self._look_again(worker)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self.members))
