"""vLLM with its front end in this process, which a run starts for that alone (`host.py`); the model is in another.

Sampling settings are ours alone (the checkpoint's defaults would distort what training takes for the policy),
log-probs are those of the distribution that was drawn from, temperature included, and no usage statistics are sent.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.engine.devices import SPLIT, check_split, heads_in
from agon.engine.linear_attention import has_linear_attention
from agon.engine.protocol import Draw, DrawResult, EngineDown, finish_of, in_any
from agon.engine.vllm.orphans import NAME, OrphanReaper
from agon.engine.vllm.placement import BATCHED, SEQUENCES
from agon.engine.vllm.spawn import prepare
from agon.errors import EngineError
from agon.types import BASE, Version

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM serves; an adapter fits in the next larger one."""
CACHED = 4
"""Adapters held in memory beyond those in slots: an evicted one would be read again, and its folder may be gone."""
SLEEP_LEVEL = 1
"""Weights move to main memory and back. Level 2 discards the base, and nothing would push it again."""
FIXED: dict[str, object] = {
    "skip_tokenizer_init": True,
    # of a composite checkpoint, the text model alone; without it, a tokenizer would be needed for pictures
    "language_model_only": True,
    "generation_config": "vllm",
    "logprobs_mode": "processed_logprobs",
    "enable_prefix_caching": True,
    "enable_lora": True,
    "disable_log_stats": True,
}
"""Engine arguments that no config changes."""
QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    # on auto, the CPU build computes on one core of each pair
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # a fork of a process with threads may hang, and would not carry the tag of its reaper
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


class LocalEngine:
    """Implements `agon.engine.protocol.Engine` with vLLM's AsyncLLM."""

    logs = "its log output above"

    def __init__(
        self,
        base_path: str,
        *,
        dtype: str,
        context: int,
        rank: int,
        max_loras: int,
        cached: int = CACHED,
        memory: float,
        sleeps: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._sleeps = sleeps
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        base = text_config(base_path)
        check_split(int((options or {}).get(SPLIT, 1)), heads_in(base.to_dict()), base_path)  # type: ignore[call-overload]
        self.context = min(context, longest(base))
        self._arguments: dict[str, object] = {
            "model": base_path,
            "dtype": dtype,
            "max_model_len": self.context,
            "max_loras": max_loras,
            "max_cpu_loras": max_loras + cached,
            "max_lora_rank": next(size for size in RANKS if size >= rank),
            "enable_sleep_mode": sleeps,
            **FIXED,
            **on_platform(base, self.context, memory),
            **(options or {}),
        }
        self._llm: Any = None
        self._adapters: dict[Version, Any] = {}
        self._numbers = itertools.count(1)
        self._tokens = 0

    async def start(self) -> None:
        """Start the engine in a thread: vLLM waits for its processes without a deadline."""
        if NAME not in os.environ:  # a process of `spawn.py` is watched by the run that started it
            self._reaper = OrphanReaper()
            prepare(os.environ, self._reaper)
        self._llm = await asyncio.to_thread(self._started)

    def _started(self) -> Any:
        try:
            return self._make()
        except (Exception, SystemExit) as error:
            raise EngineDown(f"vLLM did not start: {error!r}") from error

    def _make(self) -> Any:
        from vllm import AsyncEngineArgs

        from agon.engine.vllm.compat import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments), stat_loggers=[self._counter()])

    @property
    def _running(self) -> Any:
        if self._llm is None:
            raise EngineDown("the engine is not running")
        return self._llm

    async def load(self, version: Version, folder: Path) -> None:
        from agon.engine.vllm.compat import LoRARequest

        if version in self._adapters:
            return
        # a plain str: vLLM sends it to its processes with msgpack
        adapter = LoRARequest(str(version), next(self._numbers), str(folder))
        try:
            await self._alive(self._running.add_lora(adapter))
        except EngineDown as error:
            await self._alive(self._running.list_loras())  # an engine that answers this has refused the adapter
            raise EngineError(
                f"vLLM cannot load {folder}: {error.__cause__}", fix="publish adapters trained on this base"
            ) from error
        self._adapters[version] = adapter

    async def unload(self, version: Version) -> None:
        if adapter := self._adapters.pop(version, None):
            await self._alive(self._running.remove_lora(adapter.lora_int_id))

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str]:
        name = self._adapters[version].lora_name if version in self._adapters else str(version)
        work = self._running.collective_rpc("attest", args=(name, str(folder), digest))
        return in_any(await self._alive(work))

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """Draw one completion; unless it is watched, only the finished output leaves the engine's process."""
        adapter = None if draw.version == BASE else self._adapters.get(draw.version)
        if adapter is None and draw.version != BASE:
            raise EngineError(f"{draw.version} is not loaded", fix="publish or pin it before sampling from it")
        prompt = {"prompt_token_ids": list(draw.ids)}
        stream = self._running.generate(prompt, parameters(draw, stop), uuid.uuid4().hex, lora_request=adapter)
        return result_of((await self._alive(_last(stream, draw.watch))).outputs[0])

    async def progress(self) -> int:
        return self._tokens

    async def sleep(self) -> None:
        if self._sleeps:
            await self._alive(self._running.sleep(level=SLEEP_LEVEL))

    async def wake(self) -> None:
        if self._sleeps:
            await self._alive(self._running.wake_up())

    async def stop(self) -> None:
        """Ask it to end. A core whose worker died ignores that; a reaper kills what is left after this process."""
        llm, self._llm = self._llm, None
        if llm is not None:
            await asyncio.to_thread(llm.shutdown, timeout=15)

    async def _alive(self, work: Any) -> Any:
        """The engine's answer; a failure means that it is down: vLLM raises plain exceptions across its processes."""
        from agon.engine.vllm.compat import EngineDeadError, VLLMClientError

        try:
            return await work
        except EngineDeadError as error:
            raise EngineDown("the engine's process died") from error
        except VLLMClientError as error:
            raise EngineError(
                f"vLLM refused a request: {error}", fix="see vLLM's log output, or run `agon doctor`"
            ) from error
        except Exception as error:
            raise EngineDown(f"the engine failed: {error.__cause__ or error!r}") from error

    def _counter(self) -> Any:
        """A stat logger that counts tokens: the engine's heartbeat."""
        from agon.engine.vllm.compat import StatLoggerBase

        engine = self

        class Counter(StatLoggerBase):
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

            def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **more: Any) -> None:
                if iteration_stats is not None:
                    engine._tokens += iteration_stats.num_generation_tokens + iteration_stats.num_prompt_tokens

            def log_engine_initialized(self) -> None: ...

        return Counter


def text_config(base_path: str) -> Any:
    """The config of the base's text model."""
    return _config(base_path).get_text_config()


def is_composite(base_path: str) -> bool:
    """Whether a checkpoint holds more than a text model, so that vLLM names its modules otherwise than the learner."""
    config = _config(base_path)
    return config.get_text_config() is not config


def _config(base_path: str) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(base_path, trust_remote_code=False)


def longest(base: Any) -> int:
    """The longest sequence that the base supports."""
    return int(getattr(base, "max_position_embeddings", None) or 1 << 30)


def on_platform(base: Any, context: int, memory: float) -> dict[str, object]:
    """Engine arguments that depend on the device.

    On CPUs: eager, with our LoRA kernels. A prompt is prefilled whole, as a seeded request in pieces kills that build;
    so linear attention, whose states are cached at the end of a piece, has no prefix cache there.
    """
    from agon.engine.vllm.compat import current_platform

    if not current_platform.is_cpu():
        return {
            "gpu_memory_utilization": memory,
            "max_num_seqs": SEQUENCES,
            "max_num_batched_tokens": BATCHED,
            "worker_extension_cls": "agon.engine.vllm.worker.StrictAdapters",
        }
    return {
        "enforce_eager": True,
        "worker_extension_cls": "agon.engine.vllm.cpu_lora.GroupedLora",
        "enable_chunked_prefill": False,
        "enable_prefix_caching": not has_linear_attention(base),
        "max_num_batched_tokens": max(context, 4096),
        "max_num_seqs": 64,
    }


def parameters(draw: Draw, stop: frozenset[int]) -> Any:
    from vllm import SamplingParams

    from agon.engine.vllm.compat import RequestOutputKind

    return SamplingParams(
        temperature=draw.sampling.temperature,
        top_p=draw.sampling.top_p,
        max_tokens=draw.sampling.max_tokens,
        seed=draw.seed,
        stop_token_ids=sorted(stop),
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.CUMULATIVE if draw.watch else RequestOutputKind.FINAL_ONLY,
    )


def result_of(output: Any) -> DrawResult:
    """A finished completion. Log-probs come in one flat list: a dictionary per token would be a million per step."""
    finish, ids = finish_of(output.finish_reason), tuple(output.token_ids)
    flat = output.logprobs
    if tuple(flat.token_ids) != ids:
        raise EngineDown(f"the engine returned log-probs of {len(flat.token_ids)} tokens for {len(ids)} that it drew")
    return DrawResult(ids, tuple(flat.logprobs), finish)


async def _last(stream: Any, watch: Callable[[Sequence[int]], None] | None) -> Any:
    last = None
    async for last in stream:
        if watch:
            watch(last.outputs[0].token_ids)
    return last
