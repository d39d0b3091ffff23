"""A fleet of several engines without a model: who draws, what happens to one that fails, and when to give up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agon.engine import fleet as module
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult, EngineDown
from agon.errors import EngineError
from agon.pool import State, WorkerDown
from agon.types import BASE, Sampling, Version
from tests.engine.helpers.engines import FakeEngine
from tests.engine.helpers.fleets import A, B, draw, run
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("no_grace")


class Held(FakeEngine):
    """Draws end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.done = list[int](), asyncio.Event()

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        self.begun.append(draw.seed)
        if not self._has("die"):
            await self.done.wait()
        self.tokens += 1000
        return await super().draw(draw, stop)


def test_draws_go_to_the_least_busy_member() -> None:
    engines = [Held(), Held(), Held()]

    async def scenario(fleet: Fleet) -> None:
        first = [asyncio.ensure_future(draw(fleet, seed=seed)) for seed in range(7)]
        await until(lambda: sum(len(engine.begun) for engine in engines) == 7)
        assert sorted(len(engine.begun) for engine in engines) == [2, 2, 3]
        engines[1].done.set()
        await until(lambda: fleet.members[1].busy == 0)
        more = [asyncio.ensure_future(draw(fleet, seed=seed)) for seed in (7, 8)]
        await asyncio.gather(*more)
        assert {7, 8} < set(engines[1].begun)
        for engine in engines:
            engine.done.set()
        assert {result.member for result in await asyncio.gather(*first)} == {0, 1, 2}

    assert run(engines, scenario, patience=60).restarts == 0


def test_what_a_dead_member_was_drawing_is_drawn_at_once_from_the_same_seeds_elsewhere(adapters: Path) -> None:
    class Late(Held):
        async def start(self) -> None:
            if self.starts:
                await back.wait()
            await super().start()

    back, dying, well = asyncio.Event(), Late(), Held()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        dying.fail_next("die")
        well.done.set()
        results = await asyncio.gather(*(draw(fleet, A, seed) for seed in range(6)))
        assert {result.member for result in results} == {1}, "while the other is still down"
        assert sorted(well.begun) == list(range(6))
        assert fleet.members[0].state is State.DOWN
        await fleet.load(B, adapters / "two")
        back.set()
        await until(lambda: fleet.members[0].state is State.UP)
        assert set(dying.loaded) == {A, B}, "also what became live while it was down"

    assert run([dying, well], scenario, patience=60).restarts == 1


def test_what_becomes_live_while_a_restarted_member_loads_is_loaded_too(adapters: Path) -> None:
    class Loading(FakeEngine):
        async def load(self, version: Version, folder: Path) -> None:
            if self.starts > 1:
                begun.set()
                await published.wait()
            await super().load(version, folder)

    begun, published, dying = asyncio.Event(), asyncio.Event(), Loading()

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        dying.fail_next("die")
        await draw(fleet, A)
        await begun.wait()
        await fleet.load(B, adapters / "two")
        published.set()
        await until(lambda: fleet.members[0].state is State.UP)
        assert set(dying.loaded) == {A, B}
        assert (await draw(fleet, B)).member == 0, "it has drawn the least"

    assert run([dying, FakeEngine()], scenario, patience=60).restarts == 1


def test_a_hung_member_is_found_while_another_makes_progress() -> None:
    """Each has a watchdog of its own: the tokens of one do not hide that the other makes none."""
    hung, busy = FakeEngine("hang", faulty=1), FakeEngine()

    async def scenario(fleet: Fleet) -> None:
        stuck = asyncio.ensure_future(draw(fleet))
        await until(lambda: fleet.members[0].busy == 1)
        while not stuck.done():
            busy.tokens += 1000
            await asyncio.sleep(0.01)
        assert (await stuck).member == 1
        await until(lambda: fleet.members[0].state is State.UP)

    assert run([hung, busy], scenario).restarts == 1


def test_a_version_is_drawn_only_where_it_is_loaded(adapters: Path) -> None:
    engines = [FakeEngine(), FakeEngine()]

    async def scenario(fleet: Fleet) -> None:
        await fleet.load(A, adapters / "one")
        fleet.members[0].held.discard(A)
        assert {(await draw(fleet, A, seed)).member for seed in range(5)} == {1}
        with pytest.raises(EngineError, match="b@0-x is not loaded"):
            await draw(fleet, B)

    run(engines, scenario)


def test_a_gated_member_draws_only_for_its_canary_until_it_is_admitted(adapters: Path) -> None:
    engines = [FakeEngine(), FakeEngine()]

    async def scenario(fleet: Fleet) -> None:
        fleet.gated = True
        await fleet.load(A, adapters / "one")
        engines[0].fail_next("die")
        await asyncio.gather(*(draw(fleet, A, seed) for seed in range(4)))
        assert await asyncio.wait_for(fleet.returned(), 20) == [0]
        assert {(await draw(fleet, A, seed)).member for seed in range(6)} == {1}
        pinned = await fleet.draw(Draw((1, 2), A, 0, Sampling(max_tokens=8)), frozenset(), 100, on=0)
        assert pinned.member == 0
        await fleet.admit(0, life=1)
        assert fleet.members[0].state is State.CHECKING, "what was checked was its life before"
        await fleet.admit(0, life=2)
        assert (await draw(fleet, A)).member == 0, "it has drawn the least"

    run(engines, scenario)


def test_a_draw_from_a_named_member_that_fails_is_not_drawn_elsewhere() -> None:
    engines = [FakeEngine(), FakeEngine("die", faulty=1)]

    async def scenario(fleet: Fleet) -> None:
        for reason in ("process died", "engine 1 is down"):
            with pytest.raises(WorkerDown, match=reason):
                await fleet.draw(Draw((1, 2), BASE, 0, Sampling(max_tokens=8)), frozenset(), 100, on=1)

    run(engines, scenario)


def test_a_member_that_keeps_failing_is_put_aside_and_the_last_one_stops_the_run() -> None:
    engines = [FakeEngine(), FakeEngine("die", faulty=99)]

    async def scenario(fleet: Fleet) -> None:
        for _ in range(1 + module.RESTARTS):
            await until(lambda: fleet.members[1].state is State.UP)
            await asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4)))
        await until(lambda: fleet.members[1].state is State.ASIDE)
        assert "warning: engine 1 was put aside, 1 left: the engine failed 4 times" in fleet.notes[-1]
        assert not engines[1].running
        assert {(await draw(fleet, seed=seed)).member for seed in range(4)} == {0}
        engines[0].fail_next("die", starts=99)
        with pytest.raises(EngineError, match="failed 4 times") as stopped:
            await draw(fleet)
        assert stopped.value.fix == "see its notes, then resume with: agon train RUN --resume"

    assert run(engines, scenario).restarts == 2 * module.RESTARTS


def test_failures_of_steps_that_a_member_finished_do_not_add_up(adapters: Path) -> None:
    """A member that fails while a version is loaded holds it only after its restart."""
    engines = [FakeEngine(), FakeEngine()]

    async def scenario(fleet: Fleet) -> None:
        for step in range(3 * module.RESTARTS):
            engines[0].fail_next("stuck")
            await fleet.load(Version(f"a@{step}-x"), adapters / "one")
            await until(lambda: fleet.members[0].state is State.UP)
            await draw(fleet)
        assert [member.state for member in fleet.members] == [State.UP, State.UP]

    assert run(engines, scenario, patience=0.05).restarts == 3 * module.RESTARTS


def test_a_member_that_drew_in_each_step_is_kept_though_it_is_down_when_the_next_begins(adapters: Path) -> None:
    engines = [FakeEngine(), FakeEngine()]

    async def scenario(fleet: Fleet) -> None:
        for step in range(2 * module.RESTARTS):
            await until(lambda: fleet.members[0].state is State.UP)
            await fleet.draw(Draw((1, 2), BASE, 0, Sampling(max_tokens=8)), frozenset(), 100, on=0)
            engines[0].fail_next("die")
            with pytest.raises(WorkerDown):
                await fleet.draw(Draw((1, 2), BASE, 0, Sampling(max_tokens=8)), frozenset(), 100, on=0)
            assert fleet.members[0].state is State.DOWN
            await fleet.load(Version(f"a@{step}-x"), adapters / "one")
        assert fleet.members[0].state is not State.ASIDE

    assert run(engines, scenario).restarts >= 2 * module.RESTARTS - 1


def test_a_member_that_draws_nothing_is_put_aside_over_several_steps(adapters: Path) -> None:
    engines = [FakeEngine(), FakeEngine("die", faulty=99)]

    async def scenario(fleet: Fleet) -> None:
        for step in range(1 + module.RESTARTS):
            await until(lambda: fleet.members[1].state is State.UP)
            with pytest.raises(WorkerDown):
                await fleet.draw(Draw((1, 2), BASE, 0, Sampling(max_tokens=8)), frozenset(), 100, on=1)
            await fleet.load(Version(f"a@{step}-x"), adapters / "one")
        await until(lambda: fleet.members[1].state is State.ASIDE)

    run(engines, scenario)


def test_a_member_that_is_put_aside_while_it_starts_stays_aside() -> None:
    class Slow(FakeEngine):
        async def start(self) -> None:
            await super().start()
            await asyncio.sleep(0.1 if self.starts > 1 else 0.0)

    engines = [FakeEngine(), Slow("die", faulty=1)]

    async def scenario(fleet: Fleet) -> None:
        await asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4)))
        await until(lambda: engines[1].starts == 2)
        await fleet.put_aside(1, EngineError("its canary did not hold", fix="report this"))
        await until(lambda: not engines[1].running)
        assert fleet.members[1].state is State.ASIDE

    run(engines, scenario)


def test_a_restart_that_raises_something_else_does_not_leave_draws_waiting() -> None:
    class Odd(FakeEngine):
        async def start(self) -> None:
            await super().start()
            if self.starts > 1:
                raise TypeError("odd")

    async def scenario(fleet: Fleet) -> None:
        with pytest.raises(EngineError, match=r"cannot be restarted: TypeError\('odd'\)"):
            await asyncio.wait_for(draw(fleet), 20)

    run(Odd("die", faulty=99), scenario)


def test_no_engine_is_started_while_the_learner_works() -> None:
    """It would take the memory that the learner needs."""

    class Lingering(FakeEngine):
        async def stop(self) -> None:
            await asyncio.wait_for(resting.wait(), 20)
            await super().stop()

    resting, engines = asyncio.Event(), [FakeEngine(), Lingering("die", faulty=1)]

    async def scenario(fleet: Fleet) -> None:
        await asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4)))
        await fleet.rest(sleep=False)
        resting.set()
        await until(lambda: not engines[1].running)
        await asyncio.sleep(0.1)
        assert engines[1].starts == 1
        await draw(fleet)
        await until(lambda: fleet.members[1].state is State.UP)

    run(engines, scenario)


def test_an_engine_that_is_being_started_goes_to_sleep_with_the_others() -> None:
    class Slow(FakeEngine):
        async def start(self) -> None:
            await asyncio.sleep(0.1 if self.starts else 0.0)
            await super().start()

    engines = [FakeEngine(), Slow("die", faulty=1)]

    async def scenario(fleet: Fleet) -> None:
        await asyncio.gather(*(draw(fleet, seed=seed) for seed in range(4)))
        await until(lambda: fleet.members[1].starting)
        await fleet.rest(sleep=True)
        assert [engine.log for engine in engines] == [["sleep"], ["sleep"]]

    run(engines, scenario)


def test_the_context_is_that_of_the_member_with_the_smallest() -> None:
    assert Fleet(FakeEngine(context=900), FakeEngine(context=700)).context == 700


def test_one_member_that_does_not_start_at_the_beginning_is_an_error() -> None:
    class Broken(FakeEngine):
        async def start(self) -> None:
            raise EngineDown("no weights")

    with pytest.raises(EngineError, match="no weights"):
        asyncio.run(Fleet(FakeEngine(), Broken()).start())
