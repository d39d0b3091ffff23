"""vLLM inside this process: its asynchronous engine, with the model in a process of its own.

Sampling settings are ours alone (the checkpoint's defaults would bend what training takes for the policy), log-probs
are those of the distribution that was drawn from, temperature included, and no usage statistics are sent.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agon.engine.vllm.orphans import Leash
from agon.engine.vllm.sampler import Draw, Drawn, EngineDown, finished
from agon.errors import EngineError
from agon.types import BASE

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM serves; an adapter fits in the next larger one."""
CACHED = 4
"""Adapters held in memory beyond those in slots: one that fell out would be read again, and its folder may be gone."""
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
START = 1800.0
"""Seconds that an engine may take to load and to compile."""
SLEEP_LEVEL = 1
"""Weights move to main memory and come back. Level 2 throws the base away, and nobody would push it again."""
QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    # on auto, the CPU build computes on one core of each pair
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # a fork of a process with threads may hang, and would not carry the mark of its leash
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


class LocalEngine:
    """Implements `agon.engine.vllm.sampler.Engine` with vLLM's AsyncLLM."""

    def __init__(
        self, base_path: str, *, dtype: str, context: int, rank: int, max_loras: int, memory: float, **more: Any
    ) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        self.context = min(context, longest(base_path))
        self._settings = settings(base_path, dtype, self.context, rank, max_loras, memory) | more
        self._llm: Any = None
        self._adapters: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._leash: Leash | None = None
        self._tokens = 0

    async def start(self) -> None:
        """Start the engine in a thread: vLLM waits for its processes for ever, and we do not."""
        # imported before the thread begins: vLLM keeps a traceback of its import, and so what the frames below hold
        importlib.import_module("vllm.v1.engine.async_llm")
        self._adapters.clear()
        self._leash = Leash()
        try:
            self._llm = await asyncio.wait_for(asyncio.wrap_future(self._making(self._leash)), START)
        except TimeoutError:
            await self.stop()
            raise EngineDown(f"vLLM did not start in {START:.0f} s") from None
        except (RuntimeError, ValueError, OSError) as error:
            raise EngineError(
                f"vLLM did not start: {error}", fix="read its lines above; `agon doctor` checks it"
            ) from error

    def processes(self) -> list[int]:
        """The ids of the engine's processes."""
        return self._leash.processes() if self._leash else []

    def _making(self, leash: Leash) -> Future[Any]:
        """An engine that a thread is making; one that nobody waits for any more is shut down."""
        making: Future[Any] = Future()

        def make() -> None:
            try:
                with _alone(), leash.held():
                    llm = self._make()
            except (Exception, SystemExit) as error:  # the thread ends here; whoever waits is told
                if not making.cancelled():
                    making.set_exception(error if isinstance(error, Exception) else RuntimeError(f"it left: {error}"))
            else:
                if making.cancelled():
                    llm.shutdown(timeout=0)
                else:
                    making.set_result(llm)

        threading.Thread(target=make, name="agon-vllm-start", daemon=True).start()
        return making

    def _make(self) -> Any:
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._settings), stat_loggers=[self._counter()])

    async def load(self, version: str, folder: Path) -> None:
        from vllm.lora.request import LoRARequest

        if version in self._adapters:
            return
        adapter = LoRARequest(version, next(self._numbers), str(folder))
        try:
            await self._alive(self._llm.add_lora(adapter))
        except EngineDown as error:
            await self._alive(self._llm.list_loras())  # an engine that answers this has refused the adapter
            raise EngineError(
                f"vLLM cannot load {folder}: {error.__cause__}", fix="publish adapters trained on this base"
            ) from error
        self._adapters[version] = adapter

    async def unload(self, version: str) -> None:
        if adapter := self._adapters.pop(version, None):
            await self._alive(self._llm.remove_lora(adapter.lora_int_id))

    async def draw(self, draw: Draw, stop: frozenset[int]) -> Drawn:
        """One completion; only the finished output crosses from the engine."""
        adapter = None if draw.version == BASE else self._adapters.get(draw.version)
        if adapter is None and draw.version != BASE:
            raise EngineError(f"{draw.version} is not loaded", fix="publish or pin it before sampling from it")
        prompt = {"prompt_token_ids": list(draw.ids)}
        stream = self._llm.generate(prompt, parameters(draw, stop), uuid.uuid4().hex, lora_request=adapter)
        return drawn((await self._alive(_last(stream))).outputs[0])

    async def progress(self) -> int:
        return self._tokens

    async def sleep(self) -> None:
        await self._alive(self._llm.sleep(level=SLEEP_LEVEL))

    async def wake(self) -> None:
        await self._alive(self._llm.wake_up())

    async def stop(self) -> None:
        """Ask the engine to end, then end what is left of it: a core whose worker died ignores the question."""
        if self._llm is not None:
            self._llm.shutdown(timeout=15)
        if self._leash is not None:
            self._leash.end()
            if self._llm is not None:  # else the thread that starts it may not have come to its processes yet
                self._leash.untie()
        self._llm = self._leash = None

    async def _alive(self, work: Any) -> Any:
        """What the engine answers; where it fails, it is down: vLLM raises plain exceptions across its processes."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            return await work
        except EngineDeadError as error:
            raise EngineDown("the engine's process died") from error
        except VLLMClientError as error:
            raise EngineError(f"vLLM refused a request: {error}", fix="`agon doctor` checks vLLM") from error
        except Exception as error:
            raise EngineDown(f"the engine failed: {error.__cause__ or error!r}") from error

    def _counter(self) -> Any:
        """A stat logger that counts tokens: the engine's heartbeat."""
        from vllm.v1.metrics.loggers import StatLoggerBase

        engine = self

        class Counter(StatLoggerBase):
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

            def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **more: Any) -> None:
                if iteration_stats is not None:
                    engine._tokens += iteration_stats.num_generation_tokens + iteration_stats.num_prompt_tokens

            def log_engine_initialized(self) -> None: ...

        return Counter


@contextmanager
def _alone() -> Iterator[None]:
    """An engine for this process alone: on its own device, and no part of the group that torchrun made."""
    names = (*TORCHRUN, "CUDA_VISIBLE_DEVICES")
    before = {name: os.environ[name] for name in names if name in os.environ}
    if "LOCAL_RANK" in before:
        rank, devices = int(before["LOCAL_RANK"]), before.get("CUDA_VISIBLE_DEVICES")
        for name in before:
            del os.environ[name]
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.split(",")[rank] if devices else str(rank)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def longest(base_path: str) -> int:
    """The longest sequence that the base was made for."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(base_path, trust_remote_code=False).get_text_config()
    return int(getattr(config, "max_position_embeddings", None) or 1 << 30)


def settings(base_path: str, dtype: str, context: int, rank: int, max_loras: int, memory: float) -> dict[str, Any]:
    """vLLM's engine arguments."""
    from vllm.platforms import current_platform

    common = {
        "model": base_path,
        "dtype": dtype,
        "max_model_len": context,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "enable_lora": True,
        "max_loras": max_loras,
        "max_cpu_loras": max_loras + CACHED,
        "max_lora_rank": next(size for size in RANKS if size >= rank),
        "disable_log_stats": True,
    }
    return common | (_on_cpu(context) if current_platform.is_cpu() else {"gpu_memory_utilization": memory})


def _on_cpu(context: int) -> dict[str, Any]:
    """Eager, with our LoRA kernels; a prompt is prefilled whole, as a seeded request in pieces kills the CPU build."""
    return {
        "enforce_eager": True,
        "worker_extension_cls": "agon.engine.vllm.cpu_lora.GroupedLora",
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context, 4096),
        "max_num_seqs": 64,
    }


def parameters(draw: Draw, stop: frozenset[int]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=draw.sampling.temperature,
        top_p=draw.sampling.top_p,
        max_tokens=draw.sampling.max_tokens,
        seed=draw.seed,
        stop_token_ids=sorted(stop),
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def drawn(output: Any) -> Drawn:
    finish, ids = finished(output.finish_reason), tuple(output.token_ids)
    logprobs = tuple(entry[token].logprob for entry, token in zip(output.logprobs, ids, strict=True))
    return Drawn(ids, logprobs, finish)


async def _last(stream: Any) -> Any:
    items = [item async for item in stream]
    return items[-1]
