"""The engine inside this process, over a stand-in for vLLM's AsyncLLM that fails as the real one does."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agon.engine.vllm import local
from agon.engine.vllm import sampler as vllm
from agon.engine.vllm.local import LocalEngine, drawn
from agon.engine.vllm.sampler import Draw, EngineDown, VLLMSampler
from agon.errors import EngineError
from agon.types import BASE, Policy, Sampling

from .fake import join_starting, tokenizer

WHOLE = 8


def failure(kind: str) -> Exception:
    """What vLLM raises; imported here, as that takes long."""
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    going = Exception("Server shutting down")  # from every call to a core that was asked to end
    refused = VLLMValidationError("top_p must be in (0, 1]")
    return {"going": going, "refused": refused, "dead": EngineDeadError(), "failed": EngineGenerateError()}[kind]


class Core:
    """Implements the calls of AsyncLLM that we make; those in `faults` fail."""

    def __init__(self, finish: str = "length", **faults: Exception) -> None:
        self.finish, self.faults = finish, faults
        self.adapters: list[str] = []

    async def generate(self, prompt: Any, params: Any, name: str, lora_request: Any) -> AsyncIterator[Any]:
        await self._call("generate")
        ids = [7] * (WHOLE if self.finish == "length" else 3)
        logprobs = [{7: SimpleNamespace(logprob=-0.5)} for _ in ids]
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason=self.finish)])

    async def add_lora(self, adapter: Any) -> None:
        await self._call("add_lora")
        self.adapters.append(adapter.lora_name)

    async def remove_lora(self, number: int) -> None:
        await self._call("remove_lora")

    async def list_loras(self) -> None:
        await self._call("list_loras")

    async def sleep(self, level: int) -> None:
        await self._call("sleep")

    async def wake_up(self) -> None:
        await self._call("wake_up")

    def shutdown(self, timeout: float) -> None: ...

    async def _call(self, name: str) -> None:
        await asyncio.sleep(0)
        if error := self.faults.get(name):
            raise error


class Inside(LocalEngine):
    """An engine of which every life is made by the next of `makes`."""

    def __init__(self, *makes: Callable[[], Core]) -> None:
        self.context, self._adapters, self._llm, self._leash, self._tokens = 512, {}, None, None, 0
        self._numbers, self.makes = itertools.count(1), iter(makes)

    def _make(self) -> Any:
        return next(self.makes)()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VLLMSampler]]:
    monkeypatch.setattr(vllm, "GRACE", 0.0)
    tokenizer().save_pretrained(tmp_path / "base")
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "adapter_config.json").write_text("{}")
    made: list[VLLMSampler] = []

    def start(*lives: Core | Callable[[], Core]) -> VLLMSampler:
        makes = [(lambda core=life: core) if isinstance(life, Core) else life for life in lives]
        made.append(VLLMSampler(str(tmp_path / "base"), Inside(*makes), sleeps=True, patience=5))
        return made[-1]

    yield start
    for sampler in made:
        sampler.close()


def publish(sampler: VLLMSampler, folder: Path, count: int = 1) -> None:
    for number in range(count):
        sampler.publish(Policy.A, f"a@{number}-x", folder / str(number))


def draw(sampler: VLLMSampler, version: str = BASE) -> vllm.Drawn:
    return sampler.draw_all([Draw((1, 2), version, 0, Sampling(max_tokens=WHOLE))])[0]


@pytest.mark.parametrize("reason", ["abort", "error", "repetition", None])
def test_only_a_stop_and_a_length_end_a_completion(reason: str | None) -> None:
    for known in ("stop", "length"):
        assert drawn(SimpleNamespace(token_ids=[], logprobs=[], finish_reason=known)).finish == known
    with pytest.raises(EngineDown, match=f"broken off.*{reason}"):
        drawn(SimpleNamespace(token_ids=[], logprobs=None, finish_reason=reason))


def test_what_an_engine_that_was_asked_to_end_hands_out_is_drawn_again(run: Callable[..., VLLMSampler]) -> None:
    sampler = run(Core("abort"), Core())
    again = draw(sampler)
    assert (len(again.ids), again.finish, sampler.life) == (WHOLE, "length", 1)


def test_a_refused_adapter_is_an_error_with_vllms_reason(run: Callable[..., VLLMSampler], tmp_path: Path) -> None:
    sampler = run(Core(add_lora=Exception("Call to add_lora method failed: LoRA rank 64 is greater than 8")))
    with pytest.raises(EngineError, match=r"cannot load .*rank 64 is greater") as refused:
        publish(sampler, tmp_path)
    assert "trained on this base" in refused.value.fix
    assert sampler.life == 0
    assert draw(sampler).ids, "the engine is well"


@pytest.mark.parametrize("kind", ["going", "dead"])
def test_an_adapter_that_an_engine_on_its_way_out_refused_is_loaded_by_the_next(
    run: Callable[..., VLLMSampler], tmp_path: Path, kind: str
) -> None:
    after = Core()
    sampler = run(Core(add_lora=failure(kind), list_loras=failure(kind)), after)
    publish(sampler, tmp_path)
    assert (sampler.life, after.adapters) == (1, ["a@0-x"])


FAULTS = {
    "remove_lora": lambda sampler, folder: publish(sampler, folder, 3),
    "sleep": lambda sampler, _: sampler.rest(),
    "wake_up": lambda sampler, _: (sampler.rest(), draw(sampler)),
    "generate": lambda sampler, _: draw(sampler),
}


@pytest.mark.parametrize("kind", ["going", "failed"])
@pytest.mark.parametrize("call", FAULTS)
def test_whatever_else_an_engine_fails_at_is_asked_of_the_next(
    run: Callable[..., VLLMSampler], tmp_path: Path, call: str, kind: str
) -> None:
    sampler = run(Core(**{call: failure(kind)}), Core())
    FAULTS[call](sampler, tmp_path)
    assert sampler.life == 1
    assert draw(sampler).ids


def test_a_request_that_vllm_refuses_is_an_error_and_not_a_restart(run: Callable[..., VLLMSampler]) -> None:
    sampler = run(Core(generate=failure("refused")))
    with pytest.raises(EngineError, match="top_p must be"):
        draw(sampler)
    assert sampler.life == 0


def test_a_restart_that_hangs_is_given_up_and_tried_again(
    run: Callable[..., VLLMSampler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, after = threading.Event(), Core()

    def hang() -> Core:
        release.wait(20)
        return Core()

    sampler = run(Core(generate=failure("dead")), hang, after)
    publish(sampler, tmp_path)
    monkeypatch.setattr(local, "START", 3.0)
    assert draw(sampler, "a@0-x").ids
    assert (after.adapters, sampler.life, sampler._failures) == (["a@0-x"], 1, 2)
    release.set()
    join_starting()
