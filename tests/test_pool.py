"""Workers that may fail, used as one: who gets the work, who is restarted, who is given up, and what callers see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agon.pool import Event, Pool, PoolStopped, State, Wanted, Worker, WorkerDown
from tests.waiting import until


class Counting(Worker):
    """Starts at once, except for starts that are listed in `broken`."""

    def __init__(self, number: int, broken: range = range(0), **settings: Any) -> None:
        super().__init__(number, **{"patience": 20.0, **settings})
        self.broken, self.starts, self.stops = broken, 0, 0

    async def start(self) -> None:
        self.starts += 1
        if self.starts in self.broken:
            raise WorkerDown(f"start {self.starts} failed")

    async def stop(self) -> None:
        self.stops += 1


class Noting(Pool[Counting]):
    """Notes what happens to its workers."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"pauses": (0.0,), **settings})
        self.events = list[tuple[int, Event]]()

    def report(self, worker: Counting, event: Event) -> None:
        self.events.append((worker.number, event))


def run(pool: Callable[[], Noting], scenario: Callable[[Noting], Awaitable[None]]) -> Noting:
    """A pool, launched and stopped around the scenario."""

    async def whole() -> Noting:
        made = pool()
        made.launch()
        try:
            await asyncio.wait_for(scenario(made), 30)
        finally:
            await asyncio.wait_for(made.stop(), 30)
        return made

    return asyncio.run(whole())


def several(count: int, **settings: Any) -> Callable[[], Noting]:
    return lambda: Noting([Counting(number, **settings) for number in range(count)])


async def all_up(pool: Noting) -> None:
    await until(lambda: all(worker.state is State.UP for worker in pool.members))


async def fail(pool: Noting, wanted: Wanted | None = None, failure: WorkerDown | None = None) -> Counting:
    """A task that fails; the worker that it had."""
    with pytest.raises(WorkerDown):
        async with pool.use(wanted or Wanted()) as worker:
            raise failure or WorkerDown("broken")
    return worker


# -- who gets the work ------------------------------------------------------------------------------------------------


def test_tasks_go_to_the_least_busy_worker_and_then_to_the_one_that_did_least() -> None:
    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        async with pool.use() as first, pool.use() as second:
            assert {first.number, second.number} == {0, 1}
        async with pool.use(Wanted(lambda worker: worker.number == 1)):
            pass
        async with pool.use() as third:
            assert third.number == 0, "the other has done more"

    run(several(2), scenario)


def test_tasks_that_wait_for_a_start_are_shared_by_workers_that_start_together() -> None:
    async def whole() -> None:
        pool, used = several(2)(), list[int]()

        async def task() -> None:
            async with pool.use() as worker:
                used.append(worker.number)
                await asyncio.sleep(0.05)

        tasks = [asyncio.ensure_future(task()) for _ in range(6)]
        await until(lambda: len(pool._waiting) == 6)
        pool.launch()
        await asyncio.gather(*tasks)
        await pool.stop()
        assert sorted(used) == [0, 0, 0, 1, 1, 1]

    asyncio.run(whole())


def test_a_worker_takes_as_many_tasks_as_it_has_slots_and_urgent_tasks_go_first() -> None:
    async def scenario(pool: Noting) -> None:
        order = list[str]()

        async def task(name: str) -> None:
            async with pool.use(Wanted(urgent=name == "urgent")):
                order.append(name)

        async with pool.use():
            waiting = [asyncio.ensure_future(task(name)) for name in ("first", "second", "urgent")]
            await asyncio.sleep(0.05)
            assert not order
        await asyncio.gather(*waiting)
        assert order == ["urgent", "first", "second"]

    run(several(1, slots=1), scenario)


def test_a_task_that_wants_another_worker_waits_without_holding_up_others() -> None:
    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        zero = Wanted(lambda worker: worker.number == 0)
        async with pool.use(zero):
            with pytest.raises(TimeoutError):
                async with pool.use(zero, wait=0.05):
                    pass
            async with pool.use(wait=5) as other:
                assert other.number == 1

    run(several(2, slots=1), scenario)


def test_a_task_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    async def scenario(pool: Noting) -> None:
        async def task() -> None:
            async with pool.use():
                await asyncio.sleep(60)

        async with pool.use() as worker:
            waiting = [asyncio.ensure_future(task()) for _ in range(3)]
            await asyncio.sleep(0.02)
            waiting[0].cancel()
        for each in waiting:  # the second was handed the worker just now, and has not run since
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert worker.busy == 0
        async with pool.use(wait=5):
            assert worker.busy == 1

    run(several(1, slots=1), scenario)


# -- workers that fail ------------------------------------------------------------------------------------------------


def test_work_of_a_worker_that_fails_is_done_by_another_while_it_restarts() -> None:
    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        failed = await fail(pool)
        async with pool.use(Wanted(avoid=failed)) as other:
            assert other is not failed
        await all_up(pool)
        assert (failed.life, other.life, failed.stops) == (2, 1, 1)

    run(several(2), scenario)


def test_a_worker_to_avoid_is_used_if_there_is_no_other() -> None:
    async def scenario(pool: Noting) -> None:
        failed = await fail(pool)
        async with pool.use(Wanted(avoid=failed)) as again:
            assert (again, again.life) == (failed, 2)

    run(several(1), scenario)


def test_all_tasks_of_a_worker_end_when_one_finds_it_gone_and_it_fails_once() -> None:
    async def scenario(pool: Noting) -> None:
        async def task() -> None:
            async with pool.use() as worker:
                await worker.unless_down(asyncio.sleep(60))

        tasks = [asyncio.ensure_future(task()) for _ in range(3)]
        await until(lambda: pool.members[0].busy == 3)
        await fail(pool)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(result) for result in results] == ["broken"] * 3
        assert pool.members[0].failures == 1

    assert run(several(1), scenario).events.count((0, "down")) == 1


def test_a_failure_of_an_earlier_life_does_not_count_against_the_next() -> None:
    async def scenario(pool: Noting) -> None:
        worker = pool.members[0]

        async def task() -> None:
            async with pool.use():
                await until(lambda: worker.life == 2 and worker.state is State.UP)
                raise WorkerDown("late")

        late = asyncio.ensure_future(task())
        await until(lambda: worker.busy == 1)
        await fail(pool)
        with pytest.raises(WorkerDown, match="late"):
            await late
        assert (worker.state, worker.failures) == (State.UP, 1)

    run(several(1), scenario)


def test_a_failure_that_is_not_final_takes_a_worker_down_only_when_repeated() -> None:
    class Small(WorkerDown):
        gone = False

    async def scenario(pool: Noting) -> None:
        for life in (1, 1, 2):
            await fail(pool, failure=Small("once"))
            await all_up(pool)
            assert pool.members[0].life == life

    run(lambda: Noting([Counting(0)], tolerance=3), scenario)


def test_other_errors_are_not_failures_of_the_worker() -> None:
    async def scenario(pool: Noting) -> None:
        with pytest.raises(ValueError, match="refused"):
            async with pool.use() as worker:
                raise ValueError("refused")
        assert (worker.state, worker.failures, worker.busy) == (State.UP, 0, 0)

    run(several(1), scenario)


def test_a_worker_with_work_and_no_progress_is_taken_down_and_an_idle_one_is_not() -> None:
    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        with pytest.raises(WorkerDown, match="0 tasks in"):
            async with pool.use() as stuck:
                await stuck.unless_down(asyncio.sleep(60))
        await all_up(pool)
        assert [worker.life for worker in pool.members] == [2, 1]

    run(several(2, patience=0.2), scenario)


def test_work_on_every_worker_skips_those_that_fail_and_raises_other_errors() -> None:
    async def number_of(worker: Counting) -> int:
        if worker.number == 1:
            raise WorkerDown("broken")
        return worker.number

    async def refuse(worker: Counting) -> None:
        raise ValueError("refused")

    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        assert await pool.each(number_of) == [0, 2]
        assert pool.members[1].failures == 1
        with pytest.raises(ValueError, match="refused"):
            await pool.each(refuse)

    run(several(3), scenario)


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_restarts_wait_longer_each_time_and_the_last_pause_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, sleep = list[float](), asyncio.sleep

    async def noted(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    async def scenario(pool: Noting) -> None:
        async with pool.use() as worker:
            assert (worker.starts, worker.failures) == (5, 4)
        monkeypatch.setattr("agon.pool.asyncio.sleep", sleep)

    monkeypatch.setattr("agon.pool.asyncio.sleep", noted)
    pool = run(lambda: Noting([Counting(0, broken=range(5))], pauses=(1.0, 2.0, 4.0)), scenario)
    assert waited == [1.0, 2.0, 4.0, 4.0]
    assert [event for _, event in pool.events] == ["not ready"] * 4 + ["up"], "each reason is another"


def test_a_worker_that_never_starts_is_given_up_and_callers_learn_why() -> None:
    async def scenario(pool: Noting) -> None:
        with pytest.raises(WorkerDown, match="worker 0 was given up: start 3 failed"):
            async with pool.use():
                pass
        with pytest.raises(WorkerDown, match="start 3 failed"):
            await pool.until(lambda: False)
        await until(lambda: pool.members[0].stops == 3)
        assert pool.members[0].state is State.ASIDE

    run(lambda: Noting([Counting(0, broken=range(99))], most=2), scenario)


def test_while_one_worker_is_left_nobody_is_refused() -> None:
    async def scenario(pool: Noting) -> None:
        await until(lambda: pool.members[0].state is State.ASIDE)
        async with pool.use() as worker:
            assert worker.number == 1
            waiting = asyncio.ensure_future(pool.until(lambda: False))
            await asyncio.sleep(0.02)
            await pool.put_aside(1, ValueError("wrong answers"))
            with pytest.raises(WorkerDown, match="worker 1 was given up: wrong answers"):
                await waiting

    run(lambda: Noting([Counting(0, broken=range(99)), Counting(1)], most=0), scenario)


def test_a_start_that_raises_anything_else_gives_the_worker_up_at_once() -> None:
    class Odd(Counting):
        async def start(self) -> None:
            await super().start()
            raise TypeError("odd")

    async def scenario(pool: Noting) -> None:
        with pytest.raises(WorkerDown, match="odd"):
            async with pool.use():
                pass
        assert pool.members[0].starts == 1

    run(lambda: Noting([Odd(0)]), scenario)


def test_a_gated_worker_is_handed_out_once_the_life_that_was_checked_is_admitted() -> None:
    def gated() -> Noting:
        pool = several(1)()
        pool.gated = True
        return pool

    async def scenario(pool: Noting) -> None:
        assert await pool.returned() == [0]
        with pytest.raises(TimeoutError):
            async with pool.use(wait=0.05):
                pass
        await pool.admit(0, life=0)
        assert pool.members[0].state is State.CHECKING
        async with pool.use(on=0) as checked:
            await pool.admit(0, checked.life)
        async with pool.use(wait=5) as worker:
            assert worker is checked

    run(gated, scenario)


def test_nothing_is_started_until_there_is_work_again() -> None:
    async def scenario(pool: Noting) -> None:
        await all_up(pool)
        pool.may_start.clear()
        await pool.each(_broken)
        await asyncio.sleep(0.1)
        assert pool.members[0].starts == 1
        async with pool.use() as worker:
            assert worker.starts == 2

    run(several(1), scenario)


async def _broken(worker: Counting) -> None:
    raise WorkerDown("broken")


# -- the end ----------------------------------------------------------------------------------------------------------


def test_stopping_ends_work_that_runs_and_work_that_waits() -> None:
    async def whole() -> None:
        pool = several(1, slots=1)()
        pool.launch()

        async def task() -> None:
            async with pool.use() as worker:
                await worker.unless_down(asyncio.sleep(60))

        tasks = [asyncio.ensure_future(task()) for _ in range(3)]
        tasks.append(asyncio.ensure_future(pool.until(lambda: False)))
        await until(lambda: pool.members[0].busy == 1)
        await asyncio.wait_for(pool.stop(), 20)
        ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert [type(error) for error in ended] == [WorkerDown, PoolStopped, PoolStopped, PoolStopped]
        with pytest.raises(PoolStopped):
            async with pool.use():
                pass
        assert (pool.members[0].starts, pool.members[0].stops, pool.members[0].busy) == (1, 1, 0)

    asyncio.run(whole())


def test_stopping_ends_although_a_start_ignores_its_cancellation() -> None:
    class Deaf(Counting):
        async def start(self) -> None:
            await super().start()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return  # as asyncio.wait_for does in Python 3.11 where its work ends at the same moment

    async def whole() -> None:
        pool = Noting([Deaf(0)])
        pool.launch()
        await until(lambda: pool.members[0].starts == 1)
        await asyncio.wait_for(pool.stop(), 20)
        assert (pool.members[0].starts, pool.members[0].life) == (1, 0)

    asyncio.run(whole())


def test_a_cancelled_task_cancels_its_work_and_frees_its_worker() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async def scenario(pool: Noting) -> None:
        async def task() -> None:
            async with pool.use() as worker:
                await worker.unless_down(work())

        running = asyncio.ensure_future(task())
        await until(lambda: pool.members[0].busy == 1)
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(cancelled.wait(), 20)
        assert (pool.members[0].busy, pool.members[0].state, pool.members[0].life) == (0, State.UP, 1)

    run(several(1), scenario)


def test_work_that_shows_no_progress_has_the_workers_patience() -> None:
    async def scenario(pool: Noting) -> None:
        assert await pool.members[0].in_time(asyncio.sleep(0, "done")) == "done"
        with pytest.raises(WorkerDown, match="no answer within"):
            await pool.members[0].in_time(asyncio.sleep(60))

    run(several(1, patience=0.1), scenario)
