"""Sampler over transformers `generate`, for tiny models and CPUs: one base of its own, one PEFT adapter per version.

Requests that are in flight when the event loop falls idle are drawn together, one batch per version, in a thread, so
that verifiers keep working; a prompt that several of them share is read once. Each row draws one number per token from
a generator seeded by its own request: what is sampled does not depend on what else is in the batch. `generate` runs
greedily over scores that are one for the sampled token and zero for all others.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.engine.protocol import DrawResult
from agon.engine.render import Rendered, Renderer
from agon.engine.safe_load import add_adapter, base_digest, load_model
from agon.engine.versions import KEPT, Versions
from agon.engine.watch import watched
from agon.errors import AgonError, EngineError
from agon.types import BASE, Completion, Finish, Request, Sampling, Version

TOKENS = 1 << 15
"""Most tokens of one `generate`, prompts and completions: what its cache holds."""
NUCLEUS = 64
"""Likeliest tokens that are looked at first for a nucleus: on a CPU, to sort the whole vocabulary costs more."""
IDLE_HOPS = 8
"""Turns of the event loop without a new request after which a batch counts as complete."""


class _NobodyWaits(Exception):
    """All that a batch was drawn for was cancelled."""


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    request: Request
    version: Version
    rendered: Rendered
    done: asyncio.Future[Completion]


class HFSampler:
    """Implements `agon.protocols.Sampler`."""

    def __init__(self, base_path: str, *, dtype: str = "float32", device: str = "cpu", kept: int = KEPT) -> None:
        self.renderer = Renderer.load(base_path)
        self._model = load_model(base_path, dtype).to(device)
        self._model.eval()
        self._model.generation_config = _greedy(self.renderer.stop)
        self._adapters = _Adapters(self._model, device)
        self._versions = Versions(self._adapters.load, self._adapters.unload, kept=kept)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agon-hf")
        self._pending: list[_Job] = []
        self._drawing: asyncio.Task[None] | None = None

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; requests that wait together are drawn together."""
        loop = asyncio.get_running_loop()
        version = self._versions.resolve(request.seat)
        job = _Job(request, version, self.renderer.render(request.prompt), loop.create_future())
        self._room(job)
        self._pending.append(job)
        if self._drawing is None or self._drawing.done():
            self._drawing = loop.create_task(self._draw())
        return await job.done

    def publish(self, version: Version, folder: Path) -> None:
        """Load `folder` as the latest version of its policy; older versions beyond the kept ones are dropped."""
        with self._lock:
            self._versions.publish(version, folder, in_use={job.version for job in self._pending})

    def pin(self, version: Version, folder: Path) -> None:
        """Keep a version live for good, loading it if it is not."""
        with self._lock:
            self._versions.pin(version, folder)

    def clip(self, text: str, max_tokens: int) -> str:
        return self.renderer.clip(text, max_tokens)

    def close(self) -> None:
        """Wait for the running batch and fail the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for job in self._pending:
            if not job.done.done():
                job.done.set_exception(EngineError("the sampler was closed", fix="start the run again"))
        self._pending.clear()

    async def _draw(self) -> None:
        """Draw batches until no request waits."""
        loop = asyncio.get_running_loop()
        await self._idle()
        while jobs := self._take():
            try:
                completions = await loop.run_in_executor(self._pool, self._generate, jobs)
            except Exception as error:
                _fail(jobs, error)
            else:
                _deliver(jobs, completions)
            await self._idle()

    async def _idle(self) -> None:
        hops, seen = 0, len(self._pending)
        while hops < IDLE_HOPS:
            await asyncio.sleep(0)
            hops = hops + 1 if len(self._pending) == seen else 0
            seen = len(self._pending)

    def _take(self) -> list[_Job]:
        """The next batch: the oldest request and those like it, in the order they came."""
        self._pending = [job for job in self._pending if not job.done.done()]
        alike = [job for job in self._pending if _kind(job) == _kind(self._pending[0])]
        width = max((len(job.rendered.ids) + self._room(job) for job in alike), default=1)
        return alike[: max(1, TOKENS // width)]

    def _room(self, job: _Job) -> int:
        """Tokens that fit after the prompt."""
        context = getattr(self._model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30
        room = min(job.request.sampling.max_tokens, context - len(job.rendered.ids))
        if room < 1:
            raise EngineError(
                f"a prompt of {len(job.rendered.ids)} tokens leaves no room in a context of {context}",
                fix="lower train.max_peek_tokens, or drop the longest problems",
            )
        return room

    def _generate(self, jobs: Sequence[_Job]) -> list[Completion]:
        import torch

        prompts = [job.rendered.ids for job in jobs]
        ids, mask = self._left_padded(prompts)
        step, seeds = self._before_token(jobs, ids.shape[1]), [job.request.seed for job in jobs]
        draw = _draw(jobs[0].request.sampling, seeds, self._model.device, step)
        with self._lock, self._adapters.active(jobs[0].version), torch.inference_mode():
            read, room = self._read(prompts), max(self._room(job) for job in jobs)
            out = self._model.generate(
                ids, attention_mask=mask, past_key_values=read, logits_processor=[draw], max_new_tokens=room
            )
        drawn = out[:, ids.shape[1] :].tolist()
        logprobs = torch.stack(draw.logprobs, dim=1).tolist()
        return [self._completion(job, *row) for job, row in zip(jobs, zip(drawn, logprobs, strict=True), strict=True)]

    def _read(self, prompts: Sequence[tuple[int, ...]]) -> Any:
        """The cache of all prompts but for their last token, each distinct one read once: a group shares its prompt."""
        import torch

        place = {prompt: n for n, prompt in enumerate(dict.fromkeys(prompts))}
        if len(place) == len(prompts) or max(map(len, prompts)) == 1:
            return None  # `generate` reads them itself
        ids, mask = self._left_padded(list(place))
        cache = self._model.generate(
            ids[:, :-1], attention_mask=mask[:, :-1], max_new_tokens=1, return_dict_in_generate=True
        ).past_key_values
        cache.reorder_cache(torch.tensor([place[prompt] for prompt in prompts], device=ids.device))
        return cache

    def _left_padded(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """Ids and attention mask of prompts that end together."""
        import torch

        width, pad, device = max(map(len, prompts)), min(self.renderer.stop, default=0), self._model.device
        ids = torch.tensor([[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
        return ids, mask

    def _before_token(self, jobs: Sequence[_Job], width: int) -> Callable[[Any], None]:
        """What is done with the ids so far: show them to whoever watches, and end when nobody waits any more."""
        looks = [watched(job.request, self.renderer) for job in jobs]

        def step(rows: Any) -> None:
            if all(job.done.done() for job in jobs):
                raise _NobodyWaits
            for look, row in zip(looks, rows, strict=True):
                if look:
                    look(row[width:].tolist())

        return step

    def _completion(self, job: _Job, drawn: list[int], logprobs: list[float]) -> Completion:
        room = min(self._room(job), len(drawn))
        end = next((n for n, token in enumerate(drawn[:room]) if token in self.renderer.stop), None)
        length = room if end is None else end + 1
        finish: Finish = "length" if end is None else "stop"
        result = DrawResult(tuple(drawn[:length]), tuple(logprobs[:length]), finish)
        return self.renderer.completion(job.rendered, job.version, result)


class _Adapters:
    """PEFT adapters in the model, one slot per live version."""

    def __init__(self, model: Any, device: str) -> None:
        self._model, self._device, self._digest = model, device, base_digest(model)
        self._peft: Any = None
        self._slots: dict[Version, str] = {}
        self._names = (f"slot{n}" for n in itertools.count())

    def unload(self, version: Version) -> None:
        self._peft.delete_adapter(self._slots.pop(version))

    @contextmanager
    def active(self, version: Version) -> Iterator[None]:
        """The model with this version's adapter on, or with none."""
        if version != BASE:
            self._peft.set_adapter(self._slots[version])
            with self._merged(self._slots[version]):
                yield
        elif self._peft is None:
            yield
        else:
            with self._peft.disable_adapter():
                yield

    @contextmanager
    def _merged(self, slot: str) -> Iterator[None]:
        """With the adapter added to the weights, one product per layer instead of three; then they are as before, to
        the bit. In half precision the sum would be rounded, so nothing is added."""
        import torch
        from peft.tuners.lora import LoraLayer

        exact = self._model.dtype == torch.float32
        layers = [layer for layer in self._peft.modules() if isinstance(layer, LoraLayer)] if exact else []
        weights = [layer.get_base_layer().weight.data for layer in layers]
        try:
            with torch.no_grad():
                for layer in layers:
                    layer.merge(safe_merge=True, adapter_names=[slot])  # safe: into a copy
            yield
        finally:
            for layer, weight in zip(layers, weights, strict=True):
                layer.get_base_layer().weight.data = weight
                layer.merged_adapters.clear()

    def load(self, version: Version, folder: Path) -> None:
        slot = next(self._names)
        self._peft = add_adapter(self._peft or self._model, folder, slot, self._device, digest=self._digest)
        self._peft.eval()
        self._slots[version] = slot


def _kind(job: _Job) -> tuple[Version, Sampling, int]:
    return job.version, job.request.sampling, job.request.batch


def _deliver(jobs: Sequence[_Job], completions: Sequence[Completion]) -> None:
    for job, completion in zip(jobs, completions, strict=True):
        if not job.done.done():
            job.done.set_result(completion)


def _fail(jobs: Sequence[_Job], error: Exception) -> None:
    failure = error if isinstance(error, AgonError) else EngineError(f"generation failed: {error!r}")
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(failure)


def _greedy(stop: frozenset[int]) -> Any:
    """Our own settings: a checkpoint's defaults (top_k, penalties) would distort what training takes for the policy."""
    from transformers import GenerationConfig

    return GenerationConfig(do_sample=False, eos_token_id=sorted(stop) or None, pad_token_id=min(stop, default=0))


def _draw(sampling: Sampling, seeds: Sequence[int], device: Any, step: Callable[[Any], None]) -> Any:
    """A logits processor whose argmax is a sample: temperature, top_p, then the inverse of the cumulative distribution
    at one uniform number per row. (Noise for every token, or `torch.multinomial`, takes most of a decoding step at a
    vocabulary of 50,000.)

    `step` is called with all ids before every token.
    """
    import torch

    class Draw:
        def __init__(self) -> None:
            self.logprobs: list[Any] = []
            self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

        def __call__(self, ids: Any, logits: Any) -> Any:
            step(ids)
            probs = _nucleus((logits.float() / (sampling.temperature or 1.0)).softmax(dim=-1), sampling.top_p)
            tokens = probs.argmax(dim=-1, keepdim=True) if sampling.temperature == 0 else self.tokens(probs)
            self.logprobs.append(probs.gather(1, tokens).log().squeeze(1))
            return torch.zeros_like(probs).scatter(1, tokens, 1.0)

        def tokens(self, probs: Any) -> Any:
            """The first token of each row at which the cumulative probability exceeds the row's uniform number."""
            total = probs.cumsum(dim=-1, dtype=torch.float64)
            uniform = [torch.rand(1, generator=one, device=device, dtype=torch.float64) for one in self.generators]
            return torch.searchsorted(total, torch.stack(uniform) * total[:, -1:], right=True)

    return Draw()


def _nucleus(probs: Any, top_p: float) -> Any:
    """The smallest set of likeliest tokens that holds `top_p`, renormalised."""
    if top_p >= 1:
        return probs
    for size in (min(NUCLEUS, probs.size(-1)), probs.size(-1)):
        ordered, order = probs.topk(size, dim=-1)
        if ordered.sum(dim=-1).min() >= top_p:
            break
    kept = ordered.masked_fill(ordered.cumsum(dim=-1) - ordered >= top_p, 0.0)
    return probs.new_zeros(probs.shape).scatter(1, order, kept / kept.sum(dim=-1, keepdim=True))
