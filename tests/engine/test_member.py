"""One engine of a fleet, without a model: restarts, retries, deadlines, and when to give up."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from agon.engine import fleet as module
from agon.engine import member
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult, EngineDown
from agon.errors import EngineError
from agon.types import Version
from tests.engine.helpers.engines import FakeEngine
from tests.engine.helpers.fleets import A, B, draw, run
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("no_grace")


@pytest.mark.parametrize("fault", ["die", "hang", "crawl"])
def test_a_failed_engine_is_restarted_once_with_the_live_versions(
    adapters: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(member, "RATE", 1000.0)
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        await fleet.load(B, adapters / "two")
        engine.fail_next(fault)
        results = await asyncio.gather(*(draw(fleet, version) for version in (A, A, A, B)))
        assert [result.logprobs[0] for result in results] == [-1.1, -1.1, -1.1, -1.2]

    assert run(engine, scenario).restarts == 1, "one restart for all that waited"
    assert engine.starts == 2


def test_what_hangs_in_an_engine_that_another_draw_found_dead_is_drawn_again_at_once() -> None:
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        engine.fail_next("die odd, hang even")
        await asyncio.wait_for(asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4))), 20)

    assert run(engine, scenario, patience=600).restarts == 1


def test_a_draw_that_begins_during_a_restart_waits_for_the_engine_and_its_versions(adapters: Path) -> None:
    class Slow(FakeEngine):
        async def start(self) -> None:
            await until(lambda: not self.starts or len(later) > 5)
            await super().start()

        async def load(self, version: Version, folder: Path) -> None:
            await until(lambda: self.starts == 1 or len(later) > 10)
            await super().load(version, folder)

    engine, later = Slow(), list[asyncio.Future[DrawResult]]()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        engine.fail_next("die")
        first = asyncio.ensure_future(draw(fleet, A))
        while not first.done():
            later.append(asyncio.ensure_future(draw(fleet, A)))
            await asyncio.sleep(0.01)
        results = await asyncio.gather(first, *later)
        assert {result.logprobs[0] for result in results} == {-1.1}
        assert len(results) > 10

    assert run(engine, scenario, patience=60).restarts == 1


def test_an_unloaded_version_is_not_loaded_into_a_restarted_engine(adapters: Path) -> None:
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        await fleet.load(B, adapters / "two")
        await fleet.unload(A)
        engine.fail_next("die")
        await draw(fleet, B)

    run(engine, scenario)
    assert set(engine.loaded) == {B}


def test_a_refused_version_is_not_loaded_into_a_restarted_engine(adapters: Path) -> None:
    engine = FakeEngine("refuse", faulty=1)

    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(EngineError, match="refused"):
            await fleet.load(A, adapters / "one")
        engine.fail_next("die")
        await draw(fleet)

    assert run(engine, scenario).restarts == 1
    assert engine.loaded == {}


def test_a_version_whose_folder_is_gone_does_not_stop_a_restart(adapters: Path) -> None:
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        await fleet.load(B, adapters / "two")
        shutil.rmtree(adapters / "one")
        engine.fail_next("die")
        await draw(fleet, B)

    run(engine, scenario)
    assert set(engine.loaded) == {B}


def test_an_adapter_that_does_not_load_in_time_is_loaded_by_the_restarted_engine(adapters: Path) -> None:
    engine = FakeEngine("stuck", faulty=1)

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        assert (await draw(fleet, A)).logprobs[0] == -1.1

    assert run(engine, scenario).restarts == 1


def test_an_engine_that_keeps_failing_stops_the_run() -> None:
    engine = FakeEngine("die", faulty=99)

    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(EngineError, match=r"failed 4 times.*process died") as stopped:
            await draw(fleet)
        assert "resume with: agon train RUN --resume" in stopped.value.fix

    assert run(engine, scenario).restarts == module.RESTARTS


def test_an_engine_that_does_not_come_back_stops_the_run() -> None:
    class Gone(FakeEngine):
        async def start(self) -> None:
            await super().start()
            if self.starts > 1:
                raise EngineDown("nothing listens")

    engine = Gone("die", faulty=99)

    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(EngineError, match="nothing listens"):
            await draw(fleet)

    assert run(engine, scenario).restarts == 0
    assert engine.starts == 1 + module.RESTARTS


def test_a_loaded_version_resets_the_count_of_failures(adapters: Path) -> None:
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        for name in ("one", "two", "three"):
            await fleet.load(Version(f"a@0-{name}"), adapters / name)
            engine.fail_next("die", starts=module.RESTARTS)
            await draw(fleet)

    assert run(engine, scenario).restarts == 3 * module.RESTARTS


def test_a_first_start_that_fails_is_an_error_with_a_fix() -> None:
    class Broken(FakeEngine):
        async def start(self) -> None:
            raise EngineDown("no weights")

    engine = Broken()
    with pytest.raises(EngineError, match="no weights") as refused:
        asyncio.run(Fleet(engine).start())
    assert "agon doctor" in refused.value.fix


def test_a_slow_engine_that_delivers_is_left_alone() -> None:
    engine = FakeEngine()

    async def slowly(draw: object, stop: object) -> DrawResult:
        for _ in range(20):
            await asyncio.sleep(0.05)
            engine.tokens += 1
        return DrawResult((7,), (-1.0,), "length")

    engine.draw = slowly  # type: ignore[method-assign, assignment]

    async def scenario(fleet: Fleet) -> None:
        await draw(fleet)

    assert run(engine, scenario, patience=0.4).restarts == 0


def test_an_engine_may_compile_kernels_before_its_first_completion_and_not_later() -> None:
    """A cold compile takes minutes, without a token."""
    engine = FakeEngine()

    async def stalls(draw: object, stop: object) -> DrawResult:
        await asyncio.sleep(0.8 if engine.starts == 1 else 0)
        return DrawResult((7,), (-1.0,), "length")

    engine.draw = stalls  # type: ignore[method-assign, assignment]

    async def scenario(fleet: Fleet) -> None:
        await draw(fleet)
        assert fleet.members[0].life == 1, "the first draw may take longer than the patience"
        await draw(fleet)
        assert fleet.members[0].life == 2, "the next may not"

    assert run(engine, scenario, patience=0.3).restarts == 1


def test_a_watchdog_that_fails_is_a_failure_of_the_engine() -> None:
    """Else an engine that hangs would be waited for without end."""
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        async def broken() -> int:
            raise ValueError("not a number")

        engine.fail_next("hang", starts=99)
        engine.progress = broken  # type: ignore[method-assign]
        with pytest.raises(EngineError, match=r"cannot watch engine 0.*not a number"):
            await asyncio.wait_for(draw(fleet), 20)

    run(engine, scenario)


@pytest.mark.parametrize(
    "drawn",
    [
        DrawResult((), (), "stop"),
        DrawResult((7,) * 9, (-1.0,) * 9, "length"),
        DrawResult((7, 7), (-1.0,), "stop"),
        DrawResult((7, 100), (-1.0, -1.0), "stop"),
        DrawResult((-1,), (-1.0,), "stop"),
        DrawResult((7,), (float("nan"),), "stop"),
        DrawResult((7,), (float("-inf"),), "stop"),
        DrawResult((7,), (0.1,), "stop"),
    ],
)
def test_what_cannot_be_a_completion_is_drawn_again(drawn: DrawResult) -> None:
    engine, sound = FakeEngine(), DrawResult((0, 99), (0.0, 1e-6), "stop")

    async def answer(draw: object, stop: object) -> DrawResult:
        return sound if engine.starts > 1 else drawn

    engine.draw = answer  # type: ignore[method-assign, assignment]

    async def scenario(fleet: Fleet) -> None:
        assert await draw(fleet) == sound

    assert run(engine, scenario).restarts == 1


def test_an_idle_engine_is_left_alone() -> None:
    class Unhurried(FakeEngine):
        async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
            await asyncio.sleep(0.01)
            return await super().draw(draw, stop)

    async def scenario(fleet: Fleet) -> None:
        await asyncio.sleep(0.5)
        await draw(fleet)

    assert run(Unhurried(), scenario, patience=0.2).restarts == 0


def test_a_refused_request_is_an_error_and_not_a_restart() -> None:
    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(EngineError, match="refused"):
            await draw(fleet)

    assert run(FakeEngine("refuse", faulty=1), scenario).restarts == 0


def test_an_engine_that_sleeps_wakes_once_for_the_next_draws_or_load(adapters: Path) -> None:
    engine = FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        for _ in range(2):
            await fleet.rest(sleep=True)
            await fleet.rest(sleep=True)
            await asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4)))
        await fleet.rest(sleep=True)
        await fleet.load(A, adapters / "one")

    run(engine, scenario)
    assert engine.log == ["sleep", "wake"] * 3 + ["load a@0-x"]


def test_an_engine_that_dies_asleep_is_restarted_awake() -> None:
    class Dead(FakeEngine):
        async def wake(self) -> None:
            raise EngineDown("the engine's process died")

    async def scenario(fleet: Fleet) -> None:
        await fleet.rest(sleep=True)
        await draw(fleet)

    assert run(Dead(), scenario).restarts == 1


def test_a_cancelled_draw_is_cancelled_in_the_engine() -> None:
    cancelled = asyncio.Event()

    class Hanging(FakeEngine):
        async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(draw(fleet), 0.05)
        await asyncio.wait_for(cancelled.wait(), 20)
        assert fleet.members[0].busy == 0

    assert run(Hanging(), scenario, patience=60).restarts == 0


def test_a_frozen_process_is_not_taken_for_a_hung_engine() -> None:
    """The loop itself stands still for longer than the patience: the engine gets its time after that."""
    engine = FakeEngine()

    async def work(draw: object, stop: object) -> DrawResult:
        await asyncio.sleep(0.02)
        time.sleep(0.6)  # noqa: ASYNC251 - the process is frozen
        await asyncio.sleep(0.02)
        return DrawResult((7,), (-1.0,), "length")

    engine.draw = work  # type: ignore[method-assign, assignment]

    async def scenario(fleet: Fleet) -> None:
        await draw(fleet)

    assert run(engine, scenario, patience=0.4).restarts == 0
