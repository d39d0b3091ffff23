"""The vLLM sampler without a model: versions, text and tokens, room in the context, the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError
from agon.types import BASE, Completion, Message, Policy, Prompt, Request, Sampling, Seat, Version
from tests.engine.helpers.engines import FakeEngine, adapter_folders, save_tokenizer

Make = Callable[..., VLLMSampler]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tokenizer(tmp_path_factory.mktemp("base"))


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    return adapter_folders(tmp_path, "one", "two", "three", "four")


@pytest.fixture
def make(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    made: list[VLLMSampler] = []

    def build(engine: FakeEngine, patience: float = 0.3, sleeps: bool = False) -> VLLMSampler:
        made.append(VLLMSampler(str(base), Fleet(engine, patience=patience), sleeps=sleeps))
        return made[-1]

    yield build
    for sampler in made:
        sampler.close()


def ask(seat: Seat = BASE, seed: int = 0) -> Request:
    return Request(Prompt((Message("user", ("Count.",)),)), seat, seed, Sampling(max_tokens=8))


def drawn(sampler: VLLMSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(request) for request in requests))

    return asyncio.run(together())


def test_both_policies_and_the_base_are_drawn_together(make: Make, adapters: Path) -> None:
    sampler = make(FakeEngine())
    sampler.publish(Version("a@0-x"), adapters / "one")
    sampler.publish(Version("b@0-x"), adapters / "two")
    a, b, base = drawn(sampler, ask(Policy.A), ask(Policy.B), ask())
    assert [c.version for c in (a, b, base)] == ["a@0-x", "b@0-x", BASE]
    assert [c.tokens.logprobs[0] for c in (a, b, base)] == [-1.1, -1.2, -1.0]
    assert (a.generated_tokens, a.finish) == (8, "length")


class Recording(FakeEngine):
    """Keeps what it is asked to draw."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        self.draws.append(draw)
        return await super().draw(draw, stop)


def test_every_request_is_drawn_from_its_own_seed(make: Make) -> None:
    engine = Recording()
    drawn(make(engine), *(ask(seed=seed) for seed in (11, 12, 13)))
    assert sorted(draw.seed for draw in engine.draws) == [11, 12, 13]


def test_old_versions_go_one_step_later_and_pinned_ones_stay(make: Make, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.publish(Version("a@0-x"), adapters / "one")
    sampler.pin(Version("a@0-x"), adapters / "one")
    for step, name in enumerate(("two", "three", "four"), start=1):
        sampler.publish(Version(f"a@{step}-x"), adapters / name)
    assert set(engine.loaded) == {"a@0-x", "a@2-x", "a@3-x"}
    assert engine.log.index("unload a@1-x") > engine.log.index("load a@3-x")
    assert drawn(sampler, ask(Policy.A))[0].version == "a@3-x"
    with pytest.raises(EngineError, match="a@1-x"):
        drawn(sampler, ask(Version("a@1-x")))


def test_neither_a_name_nor_a_folder_is_used_twice(make: Make, adapters: Path) -> None:
    sampler = make(FakeEngine())
    sampler.publish(Version("a@0-x"), adapters / "one")
    for version, folder in ((Version("a@0-x"), "two"), (Version("a@1-x"), "one"), (BASE, "three")):
        with pytest.raises(EngineError, match="before"):
            sampler.publish(version, adapters / folder)
    assert drawn(sampler, ask(Policy.A))[0].version == "a@0-x"


def test_cancelling_a_sample_cancels_it_in_the_engine(make: Make) -> None:
    sampler = make(FakeEngine("hang", faulty=1), patience=60)

    async def give_up() -> None:
        task = asyncio.create_task(sampler.sample(ask()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    deadline = time.monotonic() + 20
    while sampler.fleet.members[0].busy and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sampler.fleet.members[0].busy == 0


@pytest.mark.parametrize("fault", ["die", "hang"])
def test_a_failed_engine_returns_with_the_published_versions(make: Make, adapters: Path, fault: str) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.publish(Version("a@0-x"), adapters / "one")
    sampler.publish(Version("b@0-x"), adapters / "two")
    engine.fail_next(fault)
    completions = drawn(sampler, ask(Policy.A), ask(Policy.A, seed=1), ask(Policy.B))
    assert [c.tokens.logprobs[0] for c in completions] == [-1.1, -1.1, -1.2]
    assert (engine.starts, sampler.restarts) == (2, 1)


def test_a_version_that_the_engine_refuses_is_neither_live_nor_used_again(make: Make, adapters: Path) -> None:
    sampler = make(FakeEngine("refuse", faulty=1))
    for publish in (sampler.publish, sampler.pin):
        with pytest.raises(EngineError, match="refused"):
            publish(Version("a@0-x"), adapters / "one")
        with pytest.raises(EngineError, match="no version a@0-x is live"):
            drawn(sampler, ask(Version("a@0-x")))
    with pytest.raises(EngineError, match="published before"):
        sampler.publish(Version("a@0-x"), adapters / "two")


def test_a_sampler_that_was_not_built_to_sleep_stays_awake(make: Make) -> None:
    engine = FakeEngine()
    make(engine).rest()
    assert engine.log == []
    sampler = make(engine, sleeps=True)
    sampler.rest()
    drawn(sampler, ask())
    assert engine.log == ["sleep", "wake"]


def test_a_prompt_that_leaves_no_room_is_refused_with_a_fix(make: Make) -> None:
    with pytest.raises(EngineError, match="no room") as refused:
        drawn(make(FakeEngine(context=4)), ask())
    assert "max_model_len" in refused.value.fix


def test_what_is_drawn_fits_in_the_context(make: Make) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    length = drawn(sampler, ask())[0].prompt_tokens
    engine.context = length + 3
    assert drawn(sampler, ask())[0].generated_tokens == 3


def test_closing_stops_the_engine_once(make: Make) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.close()
    sampler.close()
    assert engine.stops == 1
    with pytest.raises(EngineError, match="closed"):
        drawn(sampler, ask())
