"""vLLM and its front end inside a process, over a stand-in for vLLM's AsyncLLM that fails as the real one does."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, DrawResult, EngineDown
from agon.engine.vllm import local
from agon.engine.vllm.local import LocalEngine, result_of
from agon.engine.vllm.orphans import NAME
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError
from agon.types import BASE, Sampling, Version
from tests.engine.helpers.engines import adapter_folders, save_tokenizer

WHOLE = 8


def failure(kind: str) -> Exception:
    """What vLLM raises; imported here, as that takes long."""
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    going = Exception("Server shutting down")  # from every call to a core that was asked to end
    refused = VLLMValidationError("top_p must be in (0, 1]")
    return {"going": going, "refused": refused, "dead": EngineDeadError(), "failed": EngineGenerateError()}[kind]


def flat(ids: Sequence[int], logprob: float = 0.0) -> Any:
    """Log-probs as vLLM returns them with `flat_logprobs`."""
    from vllm.logprobs import FlatLogprobs

    made = FlatLogprobs()
    for token in ids:
        made.append_fast([token], [logprob], itertools.chain([1]), [None])
    return made


class Core:
    """Implements the calls of AsyncLLM that we make; those in `faults` fail."""

    def __init__(self, finish: str = "length", **faults: Exception) -> None:
        self.finish, self.faults = finish, faults
        self.adapters: list[str] = []
        self.asked: list[tuple[Any, Any]] = []

    async def generate(self, prompt: Any, params: Any, name: str, lora_request: Any) -> AsyncIterator[Any]:
        self.asked.append((lora_request, params))
        await self._call("generate")
        ids = [7] * (WHOLE if self.finish == "length" else 3)
        logprobs = flat(ids, -0.5)
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason=self.finish)])

    async def add_lora(self, adapter: Any) -> None:
        await self._call("add_lora")
        msgspec.msgpack.encode(adapter)
        self.adapters.append(adapter.lora_name)

    async def remove_lora(self, number: int) -> None:
        await self._call("remove_lora")

    async def collective_rpc(self, method: str, args: tuple[str, ...]) -> list[list[str]]:
        await self._call(method)
        name, folder, digest = args
        return [["x.a"], ["x.a", f"{name} {Path(folder).name} {digest}"]]  # as two workers say

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
    """An engine whose every start calls the next of `makes`."""

    def __init__(self, *makes: Callable[[], Core]) -> None:
        self.context, self._adapters, self._llm, self._tokens = 512, {}, None, 0
        self._numbers, self.makes, self._sleeps = itertools.count(1), iter(makes), True

    def _make(self) -> Any:
        return next(self.makes)()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VLLMSampler]]:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    monkeypatch.setenv(NAME, "watched from outside")
    base = str(save_tokenizer(adapter_folders(tmp_path, "0", "1", "2") / "base"))
    made: list[VLLMSampler] = []

    def start(*cores: Core | Callable[[], Core]) -> VLLMSampler:
        makes = [(lambda core=core: core) if isinstance(core, Core) else core for core in cores]
        made.append(VLLMSampler(base, Fleet(Inside(*makes), patience=5), sleeps=True))
        return made[-1]

    yield start
    for sampler in made:
        sampler.close()


def publish(sampler: VLLMSampler, folder: Path, count: int = 1) -> None:
    for number in range(count):
        sampler.publish(Version(f"a@{number}-x"), folder / str(number))


def draw(sampler: VLLMSampler, version: Version = BASE) -> DrawResult:
    return sampler.draw_all([Draw((1, 2), version, 0, Sampling(max_tokens=WHOLE))])[0]


def test_an_engine_attests_what_any_of_its_workers_says(run: Callable[..., VLLMSampler], tmp_path: Path) -> None:
    sampler = run(Core())
    publish(sampler, tmp_path)
    asked = sampler.fleet.attest(Version("a@0-x"), tmp_path / "0", "5f3c", 0)
    assert sampler.submit(asked).result() == ["x.a", "a@0-x 0 5f3c"]


def test_an_engine_that_dies_while_it_attests_is_down(run: Callable[..., VLLMSampler], tmp_path: Path) -> None:
    sampler = run(Core(attest=failure("dead")), Core())
    publish(sampler, tmp_path)
    with pytest.raises(EngineDown, match="process died"):
        sampler.submit(sampler.fleet.attest(Version("a@0-x"), tmp_path / "0", "", 0)).result()


@pytest.mark.parametrize("reason", ["abort", "error", "repetition", None])
def test_only_a_stop_and_a_length_end_a_completion(reason: str | None) -> None:
    for known in ("stop", "length"):
        assert result_of(SimpleNamespace(token_ids=[], logprobs=flat([]), finish_reason=known)).finish == known
    with pytest.raises(EngineDown, match=f"aborted.*{reason}"):
        result_of(SimpleNamespace(token_ids=[], logprobs=None, finish_reason=reason))


def test_a_draw_names_its_adapter_its_seed_and_its_distribution(
    run: Callable[..., VLLMSampler], tmp_path: Path
) -> None:
    core, sampling = Core(), Sampling(temperature=0.7, top_p=0.9, max_tokens=WHOLE)
    sampler = run(core)
    publish(sampler, tmp_path, 2)
    versions = {5: Version("a@0-x"), 6: Version("a@1-x"), 7: BASE}
    sampler.draw_all([Draw((1, 2), version, seed, sampling) for seed, version in versions.items()])
    asked = sorted(core.asked, key=lambda pair: pair[1].seed)
    assert [params.seed for _, params in asked] == [5, 6, 7]
    assert {(p.temperature, p.top_p, p.max_tokens) for _, p in asked} == {(0.7, 0.9, WHOLE)}
    first, second, base = (adapter for adapter, _ in asked)
    assert base is None
    assert [(a.lora_name, a.lora_path) for a in (first, second)] == [
        (version, str(tmp_path / number)) for version, number in (("a@0-x", "0"), ("a@1-x", "1"))
    ]
    assert first.lora_int_id != second.lora_int_id


def test_log_probs_are_those_of_the_tokens_that_were_drawn() -> None:
    drawn = result_of(SimpleNamespace(token_ids=[7, 9], logprobs=flat([7, 9], -2.0), finish_reason="stop"))
    assert drawn.logprobs == (-2.0, -2.0)
    for others in ([7, 8], [7], [7, 9, 9]):
        with pytest.raises(EngineDown, match="log-probs of"):
            result_of(SimpleNamespace(token_ids=[7, 9], logprobs=flat(others), finish_reason="stop"))


def test_log_probs_are_asked_for_in_one_flat_list(run: Callable[..., VLLMSampler]) -> None:
    """A dictionary and an object per token would be a million of each in a step."""
    core = Core()
    draw(run(core))
    ((_, params),) = core.asked
    assert (params.flat_logprobs, params.logprobs) == (True, 0)


def test_what_an_engine_that_was_asked_to_end_hands_out_is_drawn_again(run: Callable[..., VLLMSampler]) -> None:
    sampler = run(Core("abort"), Core())
    again = draw(sampler)
    assert (len(again.ids), again.finish, sampler.restarts) == (WHOLE, "length", 1)


def test_a_refused_adapter_is_an_error_with_vllms_reason(run: Callable[..., VLLMSampler], tmp_path: Path) -> None:
    sampler = run(Core(add_lora=Exception("Call to add_lora method failed: LoRA rank 64 is greater than 8")))
    with pytest.raises(EngineError, match=r"cannot load .*rank 64 is greater") as refused:
        publish(sampler, tmp_path)
    assert "trained on this base" in refused.value.fix
    assert sampler.restarts == 0
    assert draw(sampler).ids, "the engine is well"


@pytest.mark.parametrize("kind", ["going", "dead"])
def test_an_adapter_that_an_engine_on_its_way_out_refused_is_loaded_by_the_next(
    run: Callable[..., VLLMSampler], tmp_path: Path, kind: str
) -> None:
    after = Core()
    sampler = run(Core(add_lora=failure(kind), list_loras=failure(kind)), after)
    publish(sampler, tmp_path)
    assert (sampler.restarts, after.adapters) == (1, ["a@0-x"])


FAULTS = {
    "remove_lora": lambda sampler, folder: publish(sampler, folder, 3),
    "sleep": lambda sampler, _: (sampler.rest(), draw(sampler)),
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
    assert sampler.restarts == 1
    assert draw(sampler).ids


def test_a_request_that_vllm_refuses_is_an_error_and_not_a_restart(run: Callable[..., VLLMSampler]) -> None:
    sampler = run(Core(generate=failure("refused")))
    with pytest.raises(EngineError, match="top_p must be"):
        draw(sampler)
    assert sampler.restarts == 0


@pytest.mark.parametrize("error", [RuntimeError("no weights"), SystemExit(3)])
def test_an_engine_that_fails_to_start_says_why(run: Callable[..., VLLMSampler], error: BaseException) -> None:
    def fail() -> Core:
        raise error

    with pytest.raises(EngineError, match=r"no weights|SystemExit\(3\)"):
        run(fail)


IN_A_PROCESS_OF_RAYS = """
import asyncio, os
from agon.engine.vllm.local import LocalEngine
from agon.engine.vllm.orphans import NAME

class Started(LocalEngine):
    def __init__(self): ...
    def _make(self): return None

engine = Started()
asyncio.run(engine.start())
assert os.environ[NAME] == engine._reaper.tag, "what vLLM starts is watched"
assert "TORCHELASTIC_RUN_ID" not in os.environ and "RANK" not in os.environ
engine._reaper.close()
"""


def test_an_engine_in_a_process_that_nobody_watches_has_its_own_reaper() -> None:
    environment = {name: value for name, value in os.environ.items() if name != NAME}
    subprocess.run([sys.executable, "-c", IN_A_PROCESS_OF_RAYS], env=environment, check=True)


def test_options_of_a_config_reach_the_engine() -> None:
    """They replace what we would choose by the device; what a run depends on cannot be named in a config."""
    from agon.engine.shipped import folder_of
    from agon.engine.vllm.door import OPTIONS

    settings: dict[str, Any] = {"dtype": "float32", "context": 64, "rank": 4, "max_loras": 2, "memory": 0.4}
    engine = LocalEngine(str(folder_of("agon:tiny")), **settings, options={"max_num_seqs": 3, "kv_cache_dtype": "fp8"})
    assert engine._arguments["max_num_seqs"] == 3
    assert engine._arguments["kv_cache_dtype"] == "fp8"
    assert not set(OPTIONS) & {*local.FIXED, "model", "dtype", "max_model_len", "max_loras", "max_lora_rank"}
