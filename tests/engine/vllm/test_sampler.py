"""The vLLM sampler without a model: versions, restarts, deadlines, shutdown."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.engine.vllm import local
from agon.engine.vllm import sampler as vllm
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError
from agon.types import BASE, Completion, Message, Policy, Prompt, Request, Sampling

from .fake import FakeEngine, tokenizer

Make = Callable[..., VLLMSampler]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    for name in ("one", "two", "three", "four", "five"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def make(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(vllm, "GRACE", 0.0)
    made: list[VLLMSampler] = []

    def build(engine: FakeEngine, patience: float = 0.3) -> VLLMSampler:
        made.append(VLLMSampler(str(base), engine, patience=patience))
        return made[-1]

    yield build
    for sampler in made:
        sampler.close()


def ask(policy: Policy | None, seed: int = 0, **fields: object) -> Request:
    words = Prompt((Message("user", ("Count.",)),))
    return Request(words, policy, seed, Sampling(max_tokens=8), **fields)  # type: ignore[arg-type]


def drawn(sampler: VLLMSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(request) for request in requests))

    return asyncio.run(together())


def test_both_policies_and_the_base_are_drawn_together(make: Make, adapters: Path) -> None:
    sampler = make(FakeEngine())
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    sampler.publish(Policy.B, "b@0-x", adapters / "two")
    a, b, base = drawn(sampler, ask(Policy.A), ask(Policy.B), ask(None))
    assert [c.version for c in (a, b, base)] == ["a@0-x", "b@0-x", BASE]
    assert [c.tokens.logprobs[0] for c in (a, b, base)] == [-1.1, -1.2, -1.0]
    assert (a.generated_tokens, a.finish) == (8, "length")


def test_old_versions_go_one_step_later_and_pinned_ones_stay(make: Make, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    sampler.pin(Policy.A, "a@0-x", adapters / "one")
    for step, name in enumerate(("two", "three", "four"), start=1):
        sampler.publish(Policy.A, f"a@{step}-x", adapters / name)
    assert set(engine.loaded) == {"a@0-x", "a@2-x", "a@3-x"}
    assert engine.log.index("unload a@1-x") > engine.log.index("load a@3-x")
    assert drawn(sampler, ask(Policy.A))[0].version == "a@3-x"
    with pytest.raises(EngineError, match="a@1-x"):
        drawn(sampler, ask(Policy.A, version="a@1-x"))


def test_neither_a_name_nor_a_folder_is_used_twice(make: Make, adapters: Path) -> None:
    sampler = make(FakeEngine())
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    for version, folder in (("a@0-x", "two"), ("a@1-x", "one"), (BASE, "three")):
        with pytest.raises(EngineError, match="before"):
            sampler.publish(Policy.A, version, adapters / folder)
    assert drawn(sampler, ask(Policy.A))[0].version == "a@0-x"


@pytest.mark.parametrize("fault", ["die", "hang", "crawl"])
def test_a_failed_engine_starts_again_with_the_right_versions(
    make: Make, adapters: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(vllm, "RATE", 1000.0)
    engine = FakeEngine()
    sampler = make(engine)
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    sampler.publish(Policy.B, "b@0-x", adapters / "two")
    engine.fault, engine.lives = fault, 1
    requests = [ask(Policy.A, seed=seed) for seed in range(3)] + [ask(Policy.B)]
    began = time.monotonic()
    completions = drawn(sampler, *requests)
    assert [c.tokens.logprobs[0] for c in completions] == [-1.1, -1.1, -1.1, -1.2]
    assert engine.starts == 2, "one restart for all that waited"
    assert time.monotonic() - began < 20


def test_an_adapter_that_does_not_load_in_time_is_loaded_by_the_next_engine(make: Make, adapters: Path) -> None:
    engine = FakeEngine("stuck", lives=1)
    sampler = make(engine)
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    assert drawn(sampler, ask(Policy.A))[0].tokens.logprobs[0] == -1.1
    assert (engine.starts, sampler.life) == (2, 1)


def test_an_engine_that_keeps_failing_stops_the_run(make: Make, adapters: Path) -> None:
    engine = FakeEngine("die", lives=99)
    sampler = make(engine)
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    with pytest.raises(EngineError, match="failed 4 times") as stopped:
        drawn(sampler, ask(Policy.A))
    assert "--resume" in stopped.value.fix


def test_a_publication_forgives_earlier_failures(make: Make, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    for step, name in enumerate(("one", "two", "three")):
        sampler.publish(Policy.A, f"a@{step}-x", adapters / name)
        engine.fault, engine.lives = "die", engine.starts + 2
        assert drawn(sampler, ask(Policy.A))[0].version == f"a@{step}-x"


def test_a_slow_engine_that_delivers_is_left_alone(make: Make) -> None:
    engine = FakeEngine()
    sampler = make(engine, patience=0.4)

    async def slowly(draw: object, stop: object) -> vllm.Drawn:
        for _ in range(20):
            await asyncio.sleep(0.05)
            engine.tokens += 1
        return vllm.Drawn((7,), (-1.0,), "length")

    engine.draw = slowly  # type: ignore[method-assign, assignment]
    assert drawn(sampler, ask(None))[0].generated_tokens == 1
    assert engine.starts == 1


def test_a_refused_request_is_an_error_and_not_a_restart(make: Make) -> None:
    engine = FakeEngine("refuse", lives=1)
    with pytest.raises(EngineError, match="refused"):
        drawn(make(engine), ask(None))
    assert engine.starts == 1


def test_what_is_asked_in_one_turn_reaches_the_engine_in_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, taken = make(FakeEngine()), list[int]()
    take = sampler._take
    monkeypatch.setattr(sampler, "_take", lambda waiting: (taken.append(len(waiting)), take(waiting)))
    assert len(drawn(sampler, *(ask(None, seed) for seed in range(32)))) == 32
    assert taken == [32]


def test_a_sample_that_is_cancelled_before_it_is_handed_over_is_not_drawn(make: Make) -> None:
    sampler = make(FakeEngine("hang", lives=1), patience=60)

    async def give_up_at_once() -> None:
        task = asyncio.create_task(sampler.sample(ask(None)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up_at_once())
    sampler._call(asyncio.sleep(0.05))
    assert sampler._drawing == 0


def test_cancelling_a_sample_cancels_it_in_the_engine(make: Make) -> None:
    sampler = make(FakeEngine("hang", lives=1), patience=60)

    async def give_up() -> None:
        task = asyncio.create_task(sampler.sample(ask(None)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    deadline = time.monotonic() + 20
    while sampler._drawing and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sampler._drawing == 0


def test_a_prompt_that_leaves_no_room_is_refused_with_a_fix(make: Make) -> None:
    with pytest.raises(EngineError, match="no room") as refused:
        drawn(make(FakeEngine(context=4)), ask(None))
    assert "max_model_len" in refused.value.fix


def test_what_is_drawn_fits_in_the_context(make: Make) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    length = drawn(sampler, ask(None))[0].prompt_tokens
    engine.context = length + 3
    assert drawn(sampler, ask(None))[0].generated_tokens == 3


def test_an_engine_that_sleeps_wakes_for_the_next_draw_or_load(make: Make, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.rest()
    assert engine.log == [], "it was not told to"
    sampler._sleeps = True
    for _ in range(2):
        sampler.rest()
        sampler.rest()
        drawn(sampler, *[ask(None, seed) for seed in range(4)])
    sampler.rest()
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    assert engine.log == ["sleep", "wake"] * 3 + ["load a@0-x"]


def test_an_engine_under_torchrun_gets_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with local._alone():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
        assert "WORLD_SIZE" not in os.environ
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["WORLD_SIZE"]) == ("4,6", "2")


def test_a_version_whose_folder_is_gone_does_not_stop_a_restart(make: Make, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.publish(Policy.A, "a@0-x", adapters / "one")
    sampler.publish(Policy.A, "a@1-x", adapters / "two")
    shutil.rmtree(adapters / "one")
    engine.fault, engine.lives = "die", 1
    assert drawn(sampler, ask(Policy.A))[0].tokens.logprobs[0] == -1.2
    assert set(engine.loaded) == {"a@1-x"}


def test_closing_stops_the_engine_once(make: Make) -> None:
    engine = FakeEngine()
    sampler = make(engine)
    sampler.close()
    sampler.close()
    assert engine.stops == 1
    with pytest.raises(EngineError, match="closed"):
        drawn(sampler, ask(None))
