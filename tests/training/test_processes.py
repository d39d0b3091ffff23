"""Processes meet after every phase: none goes on or stops alone. Real ones are killed in evidence/process_faults.py."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from agon.errors import EngineError
from agon.interrupt import Interrupt, Interrupted
from agon.training import processes as module
from agon.training.processes import Lost, PeerError, Processes
from tests.training.helpers.stores import Memory


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.3)
    monkeypatch.setattr(module, "WATCH", 0.01)
    monkeypatch.setattr(module, "SAVING", 0.5)


def world(size: int = 2) -> tuple[list[Processes], Memory]:
    store = Memory()
    return [Processes(rank, size, Interrupt(), store) for rank in range(size)], store


def phase(one: Processes, work: Callable[[], Any] = lambda: None, name: str = "play") -> None:
    with one.phase(name):
        work()


def together(pool: ThreadPoolExecutor, *work: Callable[[], Any]) -> list[BaseException | None]:
    futures: list[Future[Any]] = [pool.submit(one) for one in work]
    return [future.exception(timeout=20) for future in futures]


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_a_phase_ends_when_all_have_reported(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    waiting = pool.submit(phase, first)
    time.sleep(0.1)
    assert not waiting.done()
    phase(second)
    assert waiting.result(timeout=20) is None


def test_an_error_of_one_process_ends_the_phase_on_all_with_its_reason(pool: ThreadPoolExecutor) -> None:
    (first, second, third), _ = world(3)
    boom = EngineError("the engine is gone", fix="start it again")
    found = together(pool, lambda: phase(first), lambda: phase(second, raising(boom)), lambda: phase(third))
    assert found[1] is boom
    for other in (found[0], found[2]):
        assert isinstance(other, PeerError)
        assert other.message == "process 1 failed: the engine is gone"
        assert other.fix == "start it again"


def test_an_error_that_is_not_ours_is_named_too(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    found = together(pool, lambda: phase(first, raising(ZeroDivisionError("by zero"))), lambda: phase(second))
    assert isinstance(found[0], ZeroDivisionError)
    assert "process 0 failed: ZeroDivisionError: by zero" in str(found[1])


def test_a_signal_to_one_process_stops_all(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    found = together(pool, lambda: phase(first), lambda: phase(second, raising(Interrupted())))
    assert [type(error) for error in found] == [Interrupted, Interrupted]


def test_what_fails_after_a_signal_is_taken_for_its_consequence() -> None:
    interrupt = Interrupt()
    interrupt.asked = time.monotonic()
    with pytest.raises(Interrupted):
        phase(Processes(0, 1, interrupt), raising(EngineError("killed by the same signal", fix="")))


def test_a_process_that_never_comes_is_waited_for_until_a_signal_comes(pool: ThreadPoolExecutor) -> None:
    (first, _), _ = world()
    waiting = pool.submit(phase, first)
    time.sleep(0.5)
    assert not waiting.done(), "no deadline without a signal: a play may take an hour"
    first.interrupt.asked = time.monotonic()
    assert isinstance(waiting.exception(timeout=20), Lost)


def test_the_error_of_this_process_counts_more_than_one_that_is_lost(pool: ThreadPoolExecutor) -> None:
    (first, _), store = world()

    def signal() -> None:
        deadline = time.monotonic() + 20
        while not store.values and time.monotonic() < deadline:  # a signal before the error would be its reason
            time.sleep(0.01)
        time.sleep(0.1)
        first.interrupt.asked = time.monotonic()

    pool.submit(signal)
    with pytest.raises(EngineError, match="out of memory"):
        phase(first, raising(EngineError("out of memory", fix="")))
    assert first.interrupt.asked is not None, "it waited for the other process"


def test_a_store_that_is_gone_means_that_the_first_process_is() -> None:
    (_, second), store = world()
    store.gone = True
    with pytest.raises(Lost, match="first process is gone"):
        phase(second)
    with pytest.raises(Lost), second.phase("update") as proceed:
        proceed()


def test_an_error_outside_a_phase_reaches_the_others_at_their_next_meeting(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()

    def leave() -> None:
        with second:
            raise OSError("disk full")

    found = together(pool, lambda: phase(first), leave)
    assert isinstance(found[0], PeerError)
    assert "process 1 failed: OSError: disk full" in str(found[0])


def test_processes_in_different_phases_are_an_error(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    found = together(pool, lambda: phase(first, name="play"), lambda: phase(second, name="save"))
    assert all("different phases" in str(error) for error in found)


def test_a_process_stops_playing_when_another_stops(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()

    def play() -> None:
        with first.phase("play"):
            asyncio.run(first.watching(asyncio.sleep(60)))

    began = time.monotonic()
    found = together(pool, play, lambda: phase(second, raising(EngineError("gone", fix=""))))
    assert isinstance(found[0], PeerError)
    assert time.monotonic() - began < 30


def test_a_signal_to_a_process_that_waits_stops_those_that_still_play(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process draws for all of a machine; the others wait for it."""
    monkeypatch.setattr(module, "GRACE", 20.0)
    (first, second), _ = world()

    def play() -> None:
        with first.phase("play"):
            asyncio.run(first.watching(asyncio.sleep(20)))

    threading.Timer(0.1, lambda: setattr(second.interrupt, "asked", time.monotonic())).start()
    found = together(pool, play, lambda: phase(second))
    assert [type(error) for error in found] == [Interrupted, Interrupted]


def test_an_update_ends_early_when_another_process_stops(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    steps = []

    def update() -> None:
        with first.phase("update") as proceed:
            for step in range(1000):
                proceed()
                steps.append(step)
                time.sleep(0.01)

    found = together(pool, update, lambda: phase(second, raising(EngineError("gone", fix="")), "update"))
    assert isinstance(found[0], PeerError)
    assert len(steps) < 1000


def test_reports_do_not_pile_up(pool: ThreadPoolExecutor) -> None:
    (first, second), store = world()
    for _ in range(10):
        assert together(pool, lambda: phase(first), lambda: phase(second)) == [None, None]
    assert len(store.values) <= 6


def test_the_others_wait_at_the_end_until_the_first_has_saved(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAVING", 20.0)
    (first, second), _ = world()

    def end(one: Processes, seconds: float) -> tuple[float, float]:
        with one:
            time.sleep(seconds)
            saved = time.monotonic()
        return saved, time.monotonic()

    ends = [pool.submit(end, first, 0.2), pool.submit(end, second, 0.0)]
    (saved, _), (_, left) = (future.result(timeout=30) for future in ends)
    assert left > time.monotonic() - 15
    assert left >= saved, "the second did not leave before the first had saved"


def test_one_process_needs_no_store() -> None:
    one = Processes(0, 1, Interrupt())
    with one:
        phase(one)
        assert asyncio.run(one.watching(asyncio.sleep(0, "played"))) == "played"
    with pytest.raises(ZeroDivisionError):
        phase(one, raising(ZeroDivisionError()))


def test_work_of_all_processes_ends_when_another_one_fails(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    never = threading.Event()
    found = together(
        pool,
        lambda: phase(first, lambda: first.together(never.wait)),
        lambda: phase(second, raising(EngineError("out of memory", fix="use less"))),
    )
    never.set()
    assert isinstance(found[0], PeerError)
    assert "out of memory" in found[0].message
    assert found[0].fix == "use less"


def test_work_of_all_processes_is_left_some_seconds_after_a_signal(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    never = threading.Event()
    waiting = pool.submit(phase, first, lambda: first.together(never.wait))
    time.sleep(0.2)
    assert not waiting.done()
    first.interrupt.asked = time.monotonic()
    phase_of_other = pool.submit(phase, second)
    assert isinstance(waiting.exception(timeout=20), Interrupted)
    assert isinstance(phase_of_other.exception(timeout=20), Interrupted)
    never.set()


def test_work_of_all_processes_ends_when_the_first_one_is_gone(pool: ThreadPoolExecutor) -> None:
    (_, second), store = world()
    never = threading.Event()
    waiting = pool.submit(phase, second, lambda: second.together(never.wait))
    store.gone = True
    assert isinstance(waiting.exception(timeout=20), Lost)
    never.set()


def test_work_of_all_processes_gives_its_result_or_its_own_error() -> None:
    for one in (world()[0][0], Processes(0, 1, Interrupt())):
        assert one.together(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            one.together(lambda: 1 // 0)


def test_a_process_that_waits_does_what_others_ask_for(pool: ThreadPoolExecutor) -> None:
    (first, second), _ = world()
    helped = threading.Event()
    second.idle = helped.set
    waiting = pool.submit(phase, second)
    phase(first, lambda: helped.wait(20))
    assert helped.is_set()
    assert waiting.result(timeout=20) is None
    helped.clear()

    async def play() -> bool:
        return await asyncio.to_thread(helped.wait, 20)

    assert asyncio.run(second.watching(play())), "also while it plays"
