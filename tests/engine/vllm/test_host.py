"""An engine in another process: adapters reach it, errors keep their meaning, and a fleet does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agon.engine import fleet as fleet_module
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult, Engine, EngineDown
from agon.engine.vllm import host
from agon.engine.vllm.host import AdapterStore, EngineHost, HostedEngine, in_own_process
from agon.errors import ConfigError, EngineError
from agon.pool import WorkerDown
from agon.types import BASE, Sampling, Version
from tests.cluster.helpers import FakeCluster
from tests.engine.helpers.engines import FakeEngine, adapter_folders
from tests.waiting import alive, gone

from .in_processes import HangsOnce, KillsItself, Logging, Watchable

ONE, TWO = Version("a@000001-one"), Version("b@000001-two")
VOCABULARY = 100


class ByContent(FakeEngine):
    """Says what it reads in an adapter's folder, not what the folder is called."""

    async def load(self, version: Version, folder: Path) -> None:
        assert (folder / "adapter_config.json").read_text() == "{}"
        await super().load(version, folder)

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        drawn = await super().draw(draw, stop)
        if draw.version == BASE:
            return drawn
        weight = float((self.loaded[draw.version] / "weight").read_text())
        return DrawResult(drawn.ids, (-weight,) * len(drawn.ids), "length")

    def logprob(self, version: Version) -> float:
        return -1.0


@pytest.fixture
def folders(tmp_path: Path) -> dict[Version, Path]:
    adapter_folders(tmp_path, "one", "two")
    for name, weight in (("one", "0.5"), ("two", "0.25")):
        (tmp_path / name / "weight").write_text(weight)
    return {ONE: tmp_path / "one", TWO: tmp_path / "two"}


def draw(version: Version = BASE, seed: int = 0, tokens: int = 3) -> Draw:
    return Draw((1, 2), version, seed, Sampling(1.0, 1.0, tokens))


def engine_on(cluster: FakeCluster, make: Callable[[], Engine] = ByContent, gpus: int = 0) -> HostedEngine:
    return HostedEngine(partial(cluster.place, EngineHost, make, gpus=gpus), AdapterStore(cluster))


def held(cluster: FakeCluster, number: int = -1) -> Any:
    """The engine inside an actor."""
    return cluster.handles[number].shell._object._engine


def test_adapters_cross_without_a_shared_disk(folders: dict[Version, Path]) -> None:
    cluster = FakeCluster()

    async def main() -> None:
        engine = engine_on(cluster, gpus=1)
        await engine.start()
        assert (engine.context, cluster.gpus) == (1024, [1])
        for version, folder in folders.items():
            await engine.load(version, folder)
        for folder in folders.values():
            (folder / "weight").write_text("9")
        drawn = [await engine.draw(draw(version), frozenset()) for version in (ONE, TWO, BASE)]
        assert [result.logprobs[0] for result in drawn] == [-0.5, -0.25, -1.0]
        assert await engine.progress() == 9
        there = held(cluster).loaded[ONE]
        assert there != folders[ONE]
        await engine.unload(ONE)
        assert not there.exists()
        with pytest.raises(EngineError, match="is not loaded"):
            await engine.draw(draw(ONE), frozenset())
        await engine.stop()
        assert not there.parent.exists()

    asyncio.run(main())
    assert held(cluster).stops == 1
    assert cluster.handles[0].killed == 1


def test_an_adapter_is_stored_once_for_all_engines(folders: dict[Version, Path]) -> None:
    cluster = FakeCluster()
    store = AdapterStore(cluster)
    first = store.get(ONE, folders[ONE])
    assert store.get(ONE, folders[ONE]) is first
    assert first == {"adapter_config.json": b"{}", "weight": b"0.5"}
    store.drop(ONE)
    store.get(ONE, folders[ONE])
    assert len(cluster.kept) == 2


def test_an_engine_attests_with_its_nodes_own_copy(folders: dict[Version, Path]) -> None:
    class Attests(ByContent):
        async def attest(self, version: Version, folder: Path, digest: str) -> list[str]:
            assert folder == self.loaded[version]
            return [(folder / "weight").read_text(), digest]

    async def main() -> None:
        engine = engine_on(FakeCluster(), Attests)
        await engine.start()
        await engine.load(ONE, folders[ONE])
        (folders[ONE] / "weight").write_text("9")
        assert await engine.attest(ONE, folders[ONE], "5f3c") == ["0.5", "5f3c"]
        await engine.stop()

    asyncio.run(main())


def test_draws_of_one_turn_are_one_call() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        engine = engine_on(cluster)
        await engine.start()
        await asyncio.gather(*(engine.draw(draw(seed=seed), frozenset()) for seed in range(5)))

    asyncio.run(main())
    assert cluster.handles[0].calls[-1] == "draw x 5"


def test_a_lost_actor_is_an_engine_that_is_down() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        engine = engine_on(cluster)
        with pytest.raises(EngineDown, match="not running"):
            await engine.draw(draw(), frozenset())
        await engine.start()
        cluster.handles[0].lose()
        await asyncio.sleep(0.05)
        for work in (engine.draw(draw(), frozenset()), engine.progress(), engine.unload(ONE)):
            with pytest.raises(WorkerDown, match="The actor died"):
                await work
        await engine.stop()

    asyncio.run(main())


def test_a_refusal_on_the_node_is_not_taken_for_a_lost_node() -> None:
    def without_base() -> Engine:
        raise ConfigError("the base is not on this node", fix="download it there")

    async def main() -> None:
        with pytest.raises(ConfigError, match="not on this node"):
            await engine_on(cluster, without_base).start()

    cluster = FakeCluster()
    asyncio.run(main())
    assert cluster.handles[0].killed == 1, "an actor that holds no engine is not left behind"


def test_a_node_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(FakeCluster):
        def place(self, *args: Any, **more: Any) -> Any:
            actor = super().place(*args, **more)
            self.handles[-1].shell.ask = lambda *asked: asyncio.Event().wait()  # type: ignore[assignment, method-assign]
            return actor

    monkeypatch.setattr(host, "ROOM", 0.05)
    monkeypatch.setattr(host, "STOP", 0.05)
    cluster = Nowhere()
    with pytest.raises(EngineDown, match="did not answer `placed`"):
        asyncio.run(engine_on(cluster).start())
    assert cluster.handles[0].killed == 1


def test_a_node_that_does_not_answer_makes_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ByContent):
        async def progress(self) -> int:
            await asyncio.sleep(60 if self.tokens > 3 else 0)
            return await super().progress()

    async def main() -> None:
        engine = engine_on(FakeCluster(), Silent)
        await engine.start()
        await engine.draw(draw(), frozenset())
        assert await engine.progress() == 3
        await engine.draw(draw(), frozenset())
        monkeypatch.setattr(host, "PROGRESS", 0.05)
        assert await engine.progress() == 3, "what it said last"

    monkeypatch.setattr(host, "PROGRESS", 60.0)
    asyncio.run(main())


def test_a_fleet_draws_elsewhere_and_places_a_new_actor(
    folders: dict[Version, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ByContent):
        async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
            if self is held(cluster, 0):
                await asyncio.Event().wait()  # until it is lost
            await asyncio.sleep(0.1)
            return await super().draw(draw, stop)

    monkeypatch.setattr(fleet_module, "GRACE", 0.0)
    cluster = FakeCluster()

    async def main() -> None:
        adapters = AdapterStore(cluster)
        place = partial(cluster.place, EngineHost, Slow)
        fleet = Fleet(*(HostedEngine(place, adapters) for _ in range(2)), patience=60.0)
        await fleet.start()
        await fleet.load(ONE, folders[ONE])
        asyncio.get_running_loop().call_later(0.05, cluster.handles[0].lose)
        drawn = await asyncio.gather(*(fleet.draw(draw(ONE, seed), frozenset(), VOCABULARY) for seed in range(6)))
        assert [result.logprobs[0] for result in drawn] == [-0.5] * 6
        assert {result.member for result in drawn} == {1}
        while fleet.restarts < 1:  # noqa: ASYNC110 - a fleet has no event for this
            await asyncio.sleep(0.01)
        again = await asyncio.gather(*(fleet.draw(draw(ONE, seed), frozenset(), VOCABULARY) for seed in range(6)))
        assert {result.member for result in again} == {0, 1}
        await fleet.stop()

    asyncio.run(main())
    assert len(cluster.handles) == 3
    assert all(handle.killed for handle in cluster.handles), "no actor is left behind"
    assert len(cluster.kept) == 1


@pytest.mark.parametrize("where", ["node", "process"])
def test_who_watches_a_draw_sees_its_tokens_and_nobody_else_does(where: str) -> None:
    async def main() -> None:
        engine = engine_on(FakeCluster(), Watchable) if where == "node" else in_own_process(Watchable)
        await engine.start()
        seen, shown = list[Any](), asyncio.Event()

        def watch(ids: Any) -> None:
            seen.append(list(ids))
            shown.set()

        drawing = asyncio.create_task(engine.draw(replace(draw(), watch=watch), frozenset()))
        await asyncio.wait_for(shown.wait(), 20)
        await engine.progress()
        assert (await drawing).ids == (7, 7, 7)
        assert seen[0] == [7, 7]
        assert (await engine.draw(draw(), frozenset())).ids == (7, 7, 7)
        await engine.stop()

    asyncio.run(main())


# -- in processes of this machine --------------------------------------------------------------------------------------


def children(folder: Path) -> list[int]:
    return [int(child.name) for child in folder.iterdir()]


def test_an_engine_that_hangs_while_it_starts_is_given_up_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "START", 3.0)
    engine = in_own_process(partial(HangsOnce, tmp_path))

    async def main() -> None:
        with pytest.raises(EngineDown, match="did not answer `start` within 3 s"):
            await engine.start()
        [child] = children(tmp_path)
        assert not alive(child), "it is gone before the next one starts"
        monkeypatch.setattr(host, "START", 60.0)
        await engine.start()
        assert engine.context == 1024
        await engine.stop()

    asyncio.run(main())
    assert gone(*children(tmp_path))


def test_an_adapter_is_read_where_the_learner_wrote_it_and_sleep_is_passed_on(folders: dict[Version, Path]) -> None:
    async def main() -> None:
        engine = in_own_process(Logging)
        await engine.start()
        await engine.load(ONE, folders[ONE])
        assert await engine.attest(ONE, folders[ONE], "5f3c") == [str(folders[ONE]), "5f3c"]
        await engine.sleep()
        await engine.wake()
        await engine.load(BASE, folders[TWO])
        assert await engine.attest(BASE, folders[TWO], "") == [f"load {ONE}", "sleep", "wake", f"load {BASE}"]
        await engine.unload(ONE)
        assert folders[ONE].is_dir()
        await engine.stop()

    asyncio.run(main())


def test_a_fleet_restarts_an_engine_whose_process_was_killed(
    folders: dict[Version, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "GRACE", 0.0)
    (tmp_path / "struck").mkdir()

    async def main() -> None:
        fleet = Fleet(in_own_process(partial(KillsItself, tmp_path / "struck")), patience=60.0)
        await fleet.start()
        await fleet.load(ONE, folders[ONE])
        drawn = await asyncio.gather(*(fleet.draw(draw(ONE, seed), frozenset(), VOCABULARY) for seed in range(6)))
        assert [result.logprobs[0] for result in drawn] == [-1.1] * 6
        assert fleet.restarts == 1
        assert "its process ended" in fleet.notes[0]
        await fleet.stop()

    asyncio.run(main())
