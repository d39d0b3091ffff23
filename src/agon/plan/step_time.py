"""Seconds of a step by part, from published figures of a GPU and assumptions that have names.

Drawing is bound by memory: every token reads the weights once per batch and the cache of its own sequence. It is played
through, 64 tokens at a time, on lengths at quantiles of a log-normal distribution: drafts first, each challenge behind
its draft, as many at once as the cache holds. The update is bound by arithmetic. Nothing here was measured on a GPU;
`scripts/gpu-acceptance` compares.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from statistics import NormalDist

from agon.config import Config
from agon.engine.dtypes import learner_dtype
from agon.engine.vllm.canary import DRAWN, LENGTH, PROMPTS
from agon.plan.base_shapes import Layer, Shape
from agon.plan.footprint import NF4, engine_weights, engine_width, policies_of, sequence_bytes
from agon.plan.gpus import Gpu

STRIDE = 64
"""Tokens that are played at once."""
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

    @property
    def total(self) -> float:
        return self.play + self.update + self.publish + self.checks + self.sleep


@dataclass(frozen=True, slots=True)
class Speed:
    """What one GPU computes and reads with one base."""

    shape: Shape
    config: Config
    flops: float
    """Of an engine, in 16 bits."""
    learner_flops: float
    bandwidth: float
    assumed: Assumptions

    @classmethod
    def of(cls, shape: Shape, config: Config, gpu: Gpu, assumed: Assumptions) -> Speed | None:
        """None for a GPU of which only the memory is known, or not how fast it is in the learner's dtype."""
        learner = gpu.teraflops if learner_dtype(config.model.dtype) == "bfloat16" else gpu.float32
        if gpu.teraflops is None or gpu.bandwidth is None or learner is None:
            return None
        return cls(shape, config, gpu.teraflops * 1e12, learner * 1e12, gpu.bandwidth * 1e12, assumed)

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
        adapters = policies_of(self.config) * self.shape.adapter_parameters(self.config.model.lora)
        weights, floor = self._read_weights + engine_width(self.config.model) * adapters, self.floor
        fixed, by_token = self._cache()
        multiply = 2 * self._drawn_parameters / (self.flops * self.assumed.linear)
        reads = self.bandwidth * self.assumed.bandwidth
        seconds = self._prefill(bouts)
        waiting = deque((length, after) for length, after in zip(bouts.drafts, bouts.challenges, strict=True))
        active: list[tuple[int, int, int]] = []  # drawn, length, challenge
        while waiting or active:
            while waiting and len(active) < slots:
                active.append((0, *waiting.popleft()))
            held = sum(drawn for drawn, _, _ in active) + len(active) * self.assumed.prompt
            read = (weights + len(active) * fixed + held * by_token) / reads
            seconds += STRIDE * max(floor, read, len(active) * multiply)
            waiting.extend((after, 0) for drawn, length, after in active if drawn + STRIDE >= length and after)
            active = [(drawn + STRIDE, length, after) for drawn, length, after in active if drawn + STRIDE < length]
        return seconds

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
        """Seconds in which an engine's weights leave the GPU and come back."""
        return self.assumed.wake + 2 * engine_weights(self.shape, self.config) / self.assumed.copy

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
        return 2 * tokens * self.shape.multiplied / (self.flops * self.assumed.linear)


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
