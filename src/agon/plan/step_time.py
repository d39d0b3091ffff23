"""Seconds of a step by part, from published figures of a GPU and assumptions that have names.

Drawing is bound by memory: every token reads the weights once per batch and the cache of its own sequence. It is played
through, 64 tokens at a time, on lengths at quantiles of a log-normal distribution: drafts first, each challenge behind
its draft, as many at once as the cache holds. The update is bound by arithmetic. An engine on several GPUs divides
what it reads and computes, and adds two all-reduces per layer. Nothing here was measured on a GPU;
`scripts/gpu-acceptance` compares.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp
from statistics import NormalDist

from agon.config import Config
from agon.engine.devices import gpus_per_engine
from agon.engine.dtypes import learner_dtype
from agon.engine.vllm.canary import DRAWN, LENGTH, PROMPTS
from agon.plan.base_shapes import Layer, Shape
from agon.plan.footprint import (
    NF4,
    base_bytes,
    engine_weights,
    engine_width,
    learner_width,
    policies_of,
    sequence_bytes,
)
from agon.plan.gpus import Gpu

STRIDE = 64
"""Tokens that are played at once."""
PLAYED = 8
"""Steps that are played through where engines play ahead of the learner."""
FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
"""Linear maps that vLLM computes as one, with one pair of kernels for their adapters."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What neither the config nor a datasheet says; each is a row of the plan."""

    mean: float = 0.4
    """Mean completion, as a share of its cap."""
    spread: float = 0.8
    """Standard deviation of the logarithm of a completion's length."""
    prompt: int = 300
    """Tokens of a problem and our text around it."""
    peek: int = 400
    """Tokens of a summary."""
    live: float = 0.8
    """Rows that the update learns from; the others are in dead groups."""
    bandwidth: float = 0.75
    """Share of the bandwidth that drawing reaches."""
    floor: float = 0.003
    """Seconds of an engine's step without adapters, however little it computes."""
    eager: float = 0.02
    """The same without CUDA graphs, where Python launches every kernel."""
    kernel: float = 6e-6
    """Seconds of a kernel for adapters in a CUDA graph; a linear map has two."""
    linear: float = 0.25
    """Share of the peak arithmetic that linear layers reach, LoRA and norms included."""
    attention: float = 0.3
    """Share of the peak arithmetic that attention reaches."""
    publish: float = 3.0
    """Seconds to write both adapters and load them."""
    hashed: float = 1e9
    """Bytes per second at which a published adapter's file is hashed."""
    compared: float = 4e9
    """Bytes per second at which an engine compares a slot with its file."""
    wake: float = 1.0
    """Seconds of sleeping and waking up besides the weights."""
    copy: float = 20e9
    """Bytes per second between GPU and main memory, for an engine that sleeps and wakes up."""
    all_reduce: float = 15e-6
    """Seconds of an all-reduce between the GPUs of an engine, however little it sends."""
    over_pcie: float = 40e-6
    """The same without NVLink."""
    link: float = 0.5
    """Share of the link between GPUs that collectives reach; nothing is computed meanwhile."""

    def rows(self) -> dict[str, str]:
        """Each in words, for a reader who wants to disagree."""
        return {
            "completions": f"mean {self.mean:.0%} of the cap, log-normal with sigma {self.spread:g}",
            "prompts": f"{self.prompt} tokens, and {self.peek} of a peek",
            "live rows": f"{self.live:.0%}",
            "drawing": f"{self.bandwidth:.0%} of the bandwidth, at least {1000 * self.floor:g} ms per token "
            f"({1000 * self.eager:g} without CUDA graphs), and {1e6 * self.kernel:g} us for each of two kernels of an "
            "adapted map",
            "update": f"{self.linear:.0%} of the arithmetic in linear layers, {self.attention:.0%} in attention",
            "publish": f"{self.publish:g} s",
            "checks": f"adapters hashed at {self.hashed / 1e9:g} GB/s, compared at {self.compared / 1e9:g} GB/s",
            "sleep and wake up": f"{self.wake:g} s, and weights at {self.copy / 1e9:g} GB/s, out and in",
            "between GPUs": f"{self.link:.0%} of the link, nothing computed meanwhile; two all-reduces per layer of an "
            f"engine on several GPUs, {1e6 * self.all_reduce:g} us each besides ({1e6 * self.over_pcie:g} without "
            "NVLink); a split base is gathered twice per pass",
        }


@dataclass(frozen=True, slots=True)
class Bouts:
    """Lengths of drafts and of their challenges, which begin when the draft ends; 0 is no challenge."""

    drafts: tuple[int, ...]
    challenges: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.drafts) + sum(self.challenges)

    @property
    def completions(self) -> int:
        return len(self.drafts) + sum(length > 0 for length in self.challenges)

    @property
    def longest(self) -> int:
        """Tokens that are drawn one after the other, in the longest bout."""
        return max(map(sum, zip(self.drafts, self.challenges, strict=True)))

    def share(self, parts: int) -> Bouts:
        """One of `parts` equal shares, the one with the longest bout: what one of several engines draws."""
        chains = [sum(bout) for bout in zip(self.drafts, self.challenges, strict=True)]
        first = chains.index(max(chains)) % parts
        return Bouts(self.drafts[first::parts], self.challenges[first::parts])


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """One step, by part."""

    play: float
    update: float
    publish: float
    checks: float
    sleep: float
    saved: float = 0.0
    """What playing ahead of the learner saves."""

    @property
    def learn(self) -> float:
        return self.update + self.publish + self.checks

    @property
    def total(self) -> float:
        return self.play + self.learn + self.sleep - self.saved


@dataclass(frozen=True, slots=True)
class Speed:
    """What one GPU computes and reads with one base, and an engine on one or several."""

    shape: Shape
    config: Config
    flops: float
    """Of an engine, in 16 bits."""
    learner_flops: float
    bandwidth: float
    link: float
    """Bytes per second that collectives between GPUs reach."""
    all_reduce: float
    """Seconds of one, however little it sends."""
    assumed: Assumptions

    @classmethod
    def of(cls, shape: Shape, config: Config, gpu: Gpu, assumed: Assumptions) -> Speed | None:
        """None for a GPU of which only the memory is known, or not how fast it is in the learner's dtype."""
        learner = gpu.teraflops if learner_dtype(config.model.dtype) == "bfloat16" else gpu.float32
        if gpu.teraflops is None or gpu.bandwidth is None or learner is None:
            return None
        between = assumed.link * gpu.link * 1e9, assumed.all_reduce if gpu.has_nvlink else assumed.over_pcie
        return cls(shape, config, gpu.teraflops * 1e12, learner * 1e12, gpu.bandwidth * 1e12, *between, assumed)

    @property
    def floor(self) -> float:
        """Seconds of an engine's step at least: the base's kernels, and two for every adapted map."""
        adapted = set(self.shape.adapted(self.config.model.lora))
        maps = sum(
            len({FUSED.get(linear.name, linear.name) for linear in layer.linears if linear in adapted})
            for layer in self.shape.layers
        )
        eager = self.config.sampler.options.get("enforce_eager")
        return (self.assumed.eager if eager else self.assumed.floor) + 2 * maps * self.assumed.kernel

    def draw(self, bouts: Bouts, slots: int) -> float:
        """Seconds in which one engine draws these bouts, `slots` completions at a time."""
        return self._play(bouts, slots)[0]

    def ahead(self, bouts: Bouts, slots: int, learn: float, steps: int) -> float:
        """Seconds per step where an engine draws these bouts in every step, up to `steps` ahead of a learner that takes
        `learn` seconds; the first and last steps, when fewer are in flight, are not counted."""
        ends = self._play(bouts, slots, learn, steps, PLAYED + 2 * steps)[steps + 1 : PLAYED + steps]
        return (ends[-1] - ends[0]) / (len(ends) - 1)

    def _play(self, bouts: Bouts, slots: int, learn: float = 0.0, ahead: int = 0, steps: int = 1) -> list[float]:
        """When the learner ends each step. A step begins to be played when the one `ahead` + 1 before it was learnt."""
        adapters = policies_of(self.config) * self.shape.adapter_parameters(self.config.model.lora)
        width, parallel, floor = engine_width(self.config.model), gpus_per_engine(self.config.sampler), self.floor
        weights = self._read_weights / parallel + width * adapters
        fixed, by_token = self._cache()
        multiply = 2 * self._drawn_parameters / (parallel * self.flops * self.assumed.linear)
        reads = self.bandwidth * self.assumed.bandwidth
        latency, message = self._all_reduces()
        now, ends, unfinished = 0.0, list[float](), dict[int, int]()
        begins = deque((0.0, step) for step in range(min(ahead + 1, steps)))
        waiting = deque[tuple[int, int, int]]()  # step, length, challenge
        active: list[tuple[int, int, int, int]] = []  # drawn, step, length, challenge
        while len(ends) < steps:
            if not waiting and not active:
                now = max(now, begins[0][0])
            while begins and begins[0][0] <= now:
                _, step = begins.popleft()
                now += self._prefill(bouts)
                unfinished[step] = len(bouts.drafts)
                waiting.extend(
                    (step, draft, after) for draft, after in zip(bouts.drafts, bouts.challenges, strict=True)
                )
            while waiting and len(active) < slots:
                active.append((0, *waiting.popleft()))
            held = sum(row[0] for row in active) + len(active) * self.assumed.prompt
            read = (weights + len(active) * fixed + held * by_token) / reads
            now += STRIDE * (max(floor, read, len(active) * multiply) + latency + len(active) * message)
            for drawn, step, length, after in active:
                if drawn + STRIDE >= length and after:
                    waiting.append((step, after, 0))
                elif drawn + STRIDE >= length:
                    unfinished[step] -= 1
            active = [(row[0] + STRIDE, *row[1:]) for row in active if row[0] + STRIDE < row[2]]
            while unfinished.get(len(ends)) == 0:
                ends.append(max([now, *ends[-1:]]) + learn)
                if len(ends) + ahead < steps:
                    begins.append((ends[-1], len(ends) + ahead))
        return ends

    def _all_reduces(self) -> tuple[float, float]:
        """Seconds of the all-reduces in a step of an engine on several GPUs: of any step, and per token in it."""
        parallel, count = gpus_per_engine(self.config.sampler), 2 * len(self.shape.layers)
        if parallel == 1:
            return 0.0, 0.0
        sent = engine_width(self.config.model) * self.shape.hidden * 2 * (parallel - 1) / parallel
        return count * self.all_reduce, count * sent / self.link

    def update(self, lengths: Sequence[int]) -> float:
        """Seconds of forward, recomputed forward and backward pass of rows with completions of these lengths."""
        assumed, checkpointing = self.assumed, self.config.train.gradient_checkpointing
        passes = 3 if checkpointing else 2  # forward, again, and gradients of activations; a frozen map needs no others
        tokens = sum(lengths) + len(lengths) * (assumed.prompt + assumed.peek)
        linear = 2 * passes * tokens * self.shape.multiplied + 6 * sum(lengths) * self._head
        linear += 8 * tokens * self.shape.adapter_parameters(self.config.model.lora)
        ratio = 4.5 if checkpointing else 3.5  # of a forward pass: a flash backward pass computes 2.5 times as much
        inside = ratio * sum(attention_flops(layer, length) for layer in self.shape.layers for length in lengths)
        return (linear / assumed.linear + inside / assumed.attention) / self.learner_flops

    def gather(self, lengths: Sequence[int], learners: int) -> float:
        """Seconds in which learners of a split base receive its layers, in forward and backward passes."""
        tokens = sum(lengths) + len(lengths) * (self.assumed.prompt + self.assumed.peek)
        passes = max(ceil(self.assumed.live * tokens / learners / self.config.train.tokens_per_pass), 1)
        received = base_bytes(self.shape, learner_width(self.config.model), nf4=False) * (learners - 1) / learners
        return 2 * passes * received / self.link

    def checks(self) -> float:
        """Seconds of a step in which published files are hashed, and engines compare their slots with them: after
        publication and after the last draw, each for itself."""
        published = policies_of(self.config) * 4 * self.shape.adapter_parameters(self.config.model.lora)
        return published / self.assumed.hashed + 2 * published / self.assumed.compared

    def first_check(self, engines: int) -> float:
        """Seconds of the check before the first step: all engines draw on fixed prompts, the learner scores them."""
        slots = self.config.sampler.max_loras
        rows = PROMPTS * (1 + policies_of(self.config)) + slots * (PROMPTS // 3)
        scored = 2 * engines * rows * (LENGTH + DRAWN) * (self.shape.multiplied + self._head)
        return 2 * DRAWN * self.floor + scored / (self.learner_flops * self.assumed.linear)

    def sleep(self) -> float:
        """Seconds in which an engine's weights leave its GPUs and come back."""
        weights = engine_weights(self.shape, self.config) / gpus_per_engine(self.config.sampler)
        return self.assumed.wake + 2 * weights / self.assumed.copy

    @property
    def _head(self) -> int:
        return self.shape.vocabulary * self.shape.hidden

    @property
    def _drawn_parameters(self) -> int:
        return self.shape.multiplied + self._head

    @property
    def _read_weights(self) -> float:
        """Bytes of weights that move for a batch; a map in 4 bits is read, written dequantised, and read again."""
        width = engine_width(self.config.model)
        linear = NF4 + 2 * width if "quantization" in self.config.sampler.options else width
        return linear * self.shape.multiplied + width * self._head

    def _cache(self) -> tuple[float, float]:
        """Bytes of cache that a token reads: whatever its place, and for each place before it."""
        one, two = (sequence_bytes(self.shape, self.config, tokens) for tokens in (8192, 16_384))
        return one - (two - one), (two - one) / 8192

    def _prefill(self, bouts: Bouts) -> float:
        tokens = bouts.completions * self.assumed.prompt + sum(n > 0 for n in bouts.challenges) * self.assumed.peek
        compute = 2 * self.shape.multiplied / (gpus_per_engine(self.config.sampler) * self.flops * self.assumed.linear)
        return tokens * (compute + self._all_reduces()[1])


def attention_flops(layer: Layer, length: int) -> float:
    """A causal forward pass over one row: two products of every query with the keys that it sees."""
    if layer.kind == "linear":
        return 4.0 * length * layer.state
    seen = length / 2 if layer.window is None else min(length / 2, 2 * layer.window)
    return 4.0 * length * seen * layer.queries


def bouts_of(count: int, two_stages: bool, cap: int, assumed: Assumptions) -> Bouts:
    """Bouts whose drafts, and challenges if there are any, have lengths at quantiles of a log-normal distribution."""
    middle = assumed.mean * cap * exp(-(assumed.spread**2) / 2)
    normal = NormalDist(0, assumed.spread)
    lengths = [min(cap, int(middle * exp(normal.inv_cdf((n + 0.5) / count)))) for n in reversed(range(count))]
    after = random.Random(0).sample(lengths, count) if two_stages else [0] * count
    return Bouts(tuple(lengths), tuple(after))
