"""The event loop in a thread: calls, batches, cancellation in both directions, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from agon.engine.bridge import Bridge, Runner
from agon.errors import EngineError


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    made = Bridge("agon-test")
    yield made
    made.close(nothing)


async def nothing() -> None: ...


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


async def fail() -> None:
    raise ValueError("no")


def test_a_call_runs_on_the_bridges_thread_and_returns_its_result(bridge: Bridge) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert bridge.call(where()) == "agon-test"
    assert bridge.call(double(4)) == 8
    with pytest.raises(ValueError, match="no"):
        bridge.call(fail())


def test_what_is_submitted_in_one_turn_is_handed_over_in_one(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, take = list[int](), bridge._take
    monkeypatch.setattr(bridge, "_take", lambda waiting: (taken.append(len(waiting)), take(waiting)))

    async def together() -> list[int]:
        return await asyncio.gather(*(asyncio.wrap_future(bridge.submit_batched(double(n))) for n in range(32)))

    assert asyncio.run(together()) == [2 * n for n in range(32)]
    assert taken == [32]


def test_an_error_of_batched_work_reaches_its_caller_alone(bridge: Bridge) -> None:
    async def together() -> list[object]:
        futures = [asyncio.wrap_future(bridge.submit_batched(work)) for work in (double(1), fail(), double(3))]
        return list(await asyncio.gather(*futures, return_exceptions=True))

    one, error, three = asyncio.run(together())
    assert (one, three) == (2, 6)
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("running", [False, True], ids=["before it is handed over", "while it runs"])
def test_cancelling_the_caller_cancels_the_work(bridge: Bridge, running: bool) -> None:
    began, ended = threading.Event(), threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def give_up() -> None:
        task = asyncio.ensure_future(asyncio.wrap_future(bridge.submit_batched(work())))
        await asyncio.sleep(0)
        if running:
            await asyncio.to_thread(began.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    bridge.call(asyncio.sleep(0.05))
    assert ended.is_set() == began.is_set()
    assert began.is_set() or not running


def test_closing_cancels_what_runs_then_waits_for_the_last_work() -> None:
    bridge, log = Bridge("agon-test"), list[str]()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    async def last() -> None:
        await asyncio.sleep(0.01)
        log.append("last")

    running = bridge.submit(forever())
    bridge.close(last)
    bridge.close(last)
    assert log == ["cancelled", "last"]
    assert running.cancelled()


def test_a_runner_works_where_a_loop_runs_already_and_else_in_this_thread() -> None:
    async def here() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    def twice() -> tuple[bool, bool]:
        with Runner() as runner:
            return runner.run(here()), runner.run(here())

    async def in_a_cell() -> tuple[bool, bool]:
        return twice()

    assert twice() == (True, True)
    assert asyncio.run(in_a_cell()) == (False, False)
    assert [thread.name for thread in threading.enumerate() if thread.name == "agon-run"] == []


def test_a_closed_bridge_refuses_work() -> None:
    bridge = Bridge("agon-test")
    bridge.close(nothing)
    with pytest.raises(EngineError, match="closed"):
        bridge.call(double(1))

    async def batched() -> int:
        return await asyncio.wrap_future(bridge.submit_batched(double(1)))

    with pytest.raises(EngineError, match="closed"):
        asyncio.run(batched())


def test_the_thread_ends_even_if_the_last_work_fails() -> None:
    bridge = Bridge("agon-test")
    with pytest.raises(ValueError, match="no"):
        bridge.close(fail)
    assert "agon-test" not in {thread.name for thread in threading.enumerate()}
