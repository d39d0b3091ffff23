"""An engine in another process: adapters reach it, errors keep their meaning, and a fleet restarts it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agon.engine import fleet as fleet_module
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, EngineDown
from agon.engine.vllm import host
from agon.engine.vllm.host import in_own_process
from agon.types import BASE, Sampling, Version
from tests.engine.helpers.engines import adapter_folders
from tests.waiting import alive, gone

from .in_processes import GoesSilent, HangsOnce, KillsItself, Logging, Watchable

ONE, TWO = Version("a@000001-one"), Version("b@000001-two")
VOCABULARY = 100


@pytest.fixture
def folders(tmp_path: Path) -> dict[Version, Path]:
    adapter_folders(tmp_path, "one", "two")
    for name, weight in (("one", "0.5"), ("two", "0.25")):
        (tmp_path / name / "weight").write_text(weight)
    return {ONE: tmp_path / "one", TWO: tmp_path / "two"}


def draw(version: Version = BASE, seed: int = 0, tokens: int = 3) -> Draw:
    return Draw((1, 2), version, seed, Sampling(1.0, 1.0, tokens))


def test_a_process_that_does_not_answer_makes_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        engine = in_own_process(GoesSilent)
        with pytest.raises(EngineDown, match="not running"):
            await engine.draw(draw(), frozenset())
        await engine.start()
        await engine.draw(draw(), frozenset())
        assert await engine.progress() == 3
        await engine.draw(draw(), frozenset())
        monkeypatch.setattr(host, "PROGRESS", 0.05)
        assert await engine.progress() == 3, "what it said last"
        await engine.stop()

    monkeypatch.setattr(host, "PROGRESS", 60.0)
    asyncio.run(main())


def test_who_watches_a_draw_sees_its_tokens_and_nobody_else_does() -> None:
    async def main() -> None:
        engine = in_own_process(Watchable)
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
