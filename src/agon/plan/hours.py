"""Seconds of a step, of evaluations and of a run, from one roofline and assumptions that have names.

A step of an engine draws one token of every completion in flight. It takes the longest of three: the launch of its
kernels, reading the weights and the cache of every completion, and arithmetic. Steps are played through, 64 tokens at a
time, on lengths at quantiles of a log-normal distribution: drafts first, each challenge behind its draft, as many at
once as the cache holds. An update is bound by arithmetic. docs/hardware.md states all of it; nothing was measured.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import NormalDist

from agon.config import Config
from agon.engine.devices import gpus_per_engine
from agon.engine.dtypes import learner_dtype
from agon.engine.vllm.placement import SEQUENCES
from agon.plan.base_shapes import Layer, Shape
from agon.plan.budget import Counts, completions_of_evaluation, total_steps
from agon.plan.gpus import Gpu, Node
from agon.plan.memory import NF4, Fit, engine_width, layout_of, policies_of, sequence_bytes

STRIDE = 64
"""Tokens that are played at once."""
FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
"""Linear maps that vLLM computes as one, with one pair of kernels for their adapters."""
CORES = 8
LARGER = 32
"""How many times the problems per step of a config are tried for when the learner decides."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What neither the config nor a datasheet says. `rows` has each in words."""

    mean: float = 0.37
    spread: float = 0.8
    prompt: int = 300
    peek: int = 400
    live: float = 0.8
    bandwidth: float = 0.75
    launches: float = 0.003
    eager: float = 0.02
    kernel: float = 6e-6
    linear: float = 0.25
    attention: float = 0.3
    rest: float = 5.0
    start: float = 100.0
    start_work: float = 640.0

    def rows(self) -> dict[str, str]:
        """For a reader who wants to disagree."""
        return {
            "completions": f"mean {self.mean:.0%} of the cap, log-normal with sigma {self.spread:g} and cut at the cap",
            "prompts": f"{self.prompt} tokens, and {self.peek} of a summary",
            "drawing": f"{self.bandwidth:.0%} of the bandwidth",
            "launches": f"{1000 * self.launches:g} ms per token with {CORES} CPU cores, inversely more with fewer "
            f"({1000 * self.eager:g} ms without CUDA graphs), and {1e6 * self.kernel:g} us for each of two kernels of "
            "an adapted map",
            "update": f"{self.linear:.0%} of the arithmetic in linear layers, {self.attention:.0%} in attention, "
            f"on {self.live:.0%} of the rows: the others are in dead groups",
            "publish, check, sleep and wake up": f"{self.rest:g} s per step",
            "an engine on several GPUs": "divides what it reads; what its GPUs send each other is not counted",
            "start": f"{self.start:g} s, and {self.start_work:g} s divided by the CPU cores; everything downloaded",
        }


@dataclass(frozen=True, slots=True)
class Bouts:
    """Tokens of drafts and of their challenges, which begin when the draft ends; 0 is no challenge."""

    drafts: tuple[int, ...]
    challenges: tuple[int, ...]

    @classmethod
    def of(cls, count: int, two_stages: bool, cap: int, assumed: Assumptions) -> Bouts:
        """Drafts at quantiles of the assumed distribution, the longest first, and the same lengths as challenges."""
        normal = NormalDist(0, assumed.spread)
        quantiles = [exp(normal.inv_cdf((n + 0.5) / count)) for n in reversed(range(count))]
        low, high = 0.0, cap / quantiles[-1]
        for _ in range(30):  # the mean is that of lengths cut at the cap
            scale = (low + high) / 2
            too_long = sum(min(cap, scale * each) for each in quantiles) > assumed.mean * cap * count
            low, high = (low, scale) if too_long else (scale, high)
        lengths = [min(cap, round(high * each)) for each in quantiles]
        after = random.Random(0).sample(lengths, count) if two_stages else [0] * count
        return cls(tuple(lengths), tuple(after))

    @property
    def chains(self) -> list[int]:
        """Tokens of each bout, which are drawn one after the other."""
        return [draft + after for draft, after in zip(self.drafts, self.challenges, strict=True)]

    def share(self, engines: int, steps: int = 1) -> Bouts:
        """What one of several engines draws of so many steps at once: the one that gets the longest bout."""
        first = self.chains.index(max(self.chains)) % engines
        return Bouts(self.drafts[first::engines] * steps, self.challenges[first::engines] * steps)


@dataclass(frozen=True, slots=True)
class Roofline:
    """A base on a GPU: seconds of an engine's step by what bounds it, and of an update."""

    shape: Shape
    config: Config
    assumed: Assumptions
    launches: float
    weights: float
    """To read the weights once."""
    sequence: float
    """To read what the cache holds of a completion, however long it is."""
    place: float
    """To read the cache of one more of its tokens."""
    arithmetic: float
    """Of one token."""
    learner: float
    """FLOP/s of the learner's dtype."""

    @classmethod
    def of(cls, shape: Shape, config: Config, gpu: Gpu, assumed: Assumptions) -> Roofline | None:
        """None for a GPU of which only the memory is known, or not how fast it is in the learner's dtype."""
        learner = gpu.teraflops if learner_dtype(config.model.dtype) == "bfloat16" else gpu.float32
        if gpu.teraflops is None or gpu.bandwidth is None or learner is None:
            return None
        parallel, width, options = gpus_per_engine(config.sampler), engine_width(config.model), config.sampler.options
        reads = gpu.bandwidth * 1e12 * assumed.bandwidth
        adapters = policies_of(config) * shape.adapter_parameters(config.model.lora)
        # a map in 4 bits is read, written dequantised, and read again
        linear = NF4 + 2 * width if "quantization" in options else width
        weights = (linear * shape.multiplied + width * shape.head) / parallel + width * adapters
        one, two = (sequence_bytes(shape, config, tokens) for tokens in (8192, 16_384))
        launch = assumed.eager if options.get("enforce_eager") else assumed.launches
        return cls(
            shape,
            config,
            assumed,
            launches=launch * max(CORES / gpu.cores, 1) + adapter_kernels(shape, config) * assumed.kernel,
            weights=weights / reads,
            sequence=(one - (two - one)) / reads,
            place=(two - one) / 8192 / reads,
            arithmetic=2 * (shape.multiplied + shape.head) / (gpu.teraflops * 1e12 * assumed.linear * parallel),
            learner=learner * 1e12,
        )

    def bounds(self, completions: int, held: float) -> tuple[float, float, float]:
        """Seconds of a step with so many completions in flight, which hold so many tokens in the cache, by launches, by
        what it reads and by arithmetic; the longest decides."""
        reads = self.weights + completions * self.sequence + held * self.place
        return self.launches, reads, completions * self.arithmetic

    def draw(self, bouts: Bouts, slots: int) -> float:
        """Seconds in which one engine draws these bouts, `slots` completions at a time."""
        prompts = sum(
            self.assumed.prompt + (self.assumed.prompt + self.assumed.peek if n else 0) for n in bouts.challenges
        )
        seconds = prompts * self.arithmetic
        waiting = deque(zip(bouts.drafts, bouts.challenges, strict=True))
        active: list[tuple[int, int, int]] = []  # tokens drawn, of how many, and of the challenge after it
        while waiting or active:
            while waiting and len(active) < slots:
                active.append((0, *waiting.popleft()))
            held = sum(row[0] for row in active) + len(active) * self.assumed.prompt
            seconds += STRIDE * max(self.bounds(len(active), held))
            waiting.extend((after, 0) for drawn, length, after in active if after and drawn + STRIDE >= length)
            active = [(drawn + STRIDE, length, after) for drawn, length, after in active if drawn + STRIDE < length]
        return seconds

    def update(self, lengths: Sequence[int]) -> float:
        """Seconds of forward, recomputed forward and backward pass of rows with completions of these lengths."""
        assumed, again = self.assumed, self.config.train.gradient_checkpointing
        passes = 3 if again else 2  # forward, again, and gradients of activations; a frozen map needs no others
        tokens = sum(lengths) + len(lengths) * (assumed.prompt + assumed.peek)
        linear = 2 * passes * tokens * self.shape.multiplied + 6 * sum(lengths) * self.shape.head
        linear += 8 * tokens * self.shape.adapter_parameters(self.config.model.lora)
        ratio = 4.5 if again else 3.5  # of a forward pass: a flash backward pass computes 2.5 times as much
        inside = ratio * sum(attention_flops(layer, length) for layer in self.shape.layers for length in lengths)
        return (linear / assumed.linear + inside / assumed.attention) / self.learner


def adapter_kernels(shape: Shape, config: Config) -> int:
    """Kernels of a step that compute adapters: two for every map that carries one, as vLLM has them."""
    names = {linear.name for linear in shape.adapted(config.model.lora)}
    layers = shape.layers[-(config.model.lora.layers or len(shape.layers)) :]
    fused = [
        {FUSED.get(linear.name, linear.name) for linear in layer.linears if linear.name in names} for layer in layers
    ]
    return 2 * sum(map(len, fused))


def attention_flops(layer: Layer, length: int) -> float:
    """A causal forward pass over one row: two products of every query with the keys that it sees."""
    if layer.kind == "linear":
        return 4.0 * length * layer.state
    seen = length / 2 if layer.window is None else min(length / 2, 2 * layer.window)
    return 4.0 * length * seen * layer.queries


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """One step by part."""

    play: float
    longest: float
    """Of the longest bout, alone in its engine."""
    update: float
    total: float
    """Less than all parts together where engines play ahead of the learner."""
    decides: str
    """What bounds it."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Seconds of a run, and of its parts."""

    step: StepSeconds
    evaluation: float
    """All evaluation points together."""
    start: float
    run: float


def in_flight(laid: Fit, shape: Shape, config: Config, assumed: Assumptions) -> int:
    """Completions of mean length that an engine draws at once."""
    if laid.engine is None:
        return SEQUENCES
    length = int(assumed.mean * config.train.max_completion_tokens) + assumed.prompt + assumed.peek
    return max(laid.in_flight(sequence_bytes(shape, config, length)), 1)


def bouts_of_step(config: Config, assumed: Assumptions) -> Bouts:
    game, train = config.rules(), config.train
    drafts = game.drafts_per_problem * train.problems_per_step
    return Bouts.of(drafts, game.two_stages, train.max_completion_tokens, assumed)


def step_seconds(roofline: Roofline, laid: Fit, gpus: int) -> StepSeconds:
    """One step. Engines on GPUs of their own may play ahead: then as many steps are drawn together, and learning from
    one overlaps with the others."""
    config, assumed = roofline.config, roofline.assumed
    layout, slots = layout_of(config, gpus), in_flight(laid, roofline.shape, config, assumed)
    bouts = bouts_of_step(config, assumed)
    learnt = bouts.challenges if config.rules().rival == "learns" else ()  # else A's: drafts or challenges, in turn
    rows = sorted((*bouts.drafts, *filter(None, learnt)), reverse=True)
    update = max(assumed.live * roofline.update(rows) / layout.learners, roofline.update(rows[:1]))
    share = bouts.share(layout.engines)
    play, longest = roofline.draw(share, slots), roofline.draw(bouts.share(len(bouts.drafts)), 1)
    total = whole = play + update + assumed.rest
    if layout.apart and (ahead := config.train.staleness):
        learn, steps = update + assumed.rest, ahead + 1
        together = roofline.draw(bouts.share(layout.engines, steps), slots)
        total = max(learn, (together + learn) / steps)
    drawn = min(slots, len(share.drafts))
    bounds = roofline.bounds(drawn, drawn * (assumed.prompt + assumed.mean * config.train.max_completion_tokens / 2))
    read = "weights" if 2 * roofline.weights > bounds[1] else "cache"
    bound = ("launching kernels", f"reading the {read}", "arithmetic")[bounds.index(max(bounds))]
    decides = f"play, {play / whole:.0%} of a step, bound by {bound}: {drawn} completions in flight"
    if update > play:
        decides = f"the update, {update / whole:.0%} of a step"
    elif play < 1.1 * longest:
        chain = "the longest draft and its challenge" if config.rules().two_stages else "the longest completion"
        decides = f"{chain}, {max(bouts.chains):,} tokens one after the other"
    return StepSeconds(play, longest, update, total, decides)


def hours(
    config: Config, shape: Shape, hardware: Node, laid: Fit, counts: Counts, assumed: Assumptions
) -> Hours | None:
    """Seconds of a run; None for a GPU of which only the memory is known."""
    roofline = Roofline.of(shape, config, hardware.gpu, assumed)
    if roofline is None:
        return None
    step = step_seconds(roofline, laid, hardware.gpus)
    points, total = completions_of_evaluation(config, counts)
    evaluation = 0.0
    if total:
        two = config.rules().two_stages
        bouts = Bouts.of(-(-total // ((1 + two) * points)), two, config.eval.max_completion_tokens, assumed)
        share = bouts.share(layout_of(config, hardware.gpus).engines)
        evaluation = points * roofline.draw(share, in_flight(laid, shape, config, assumed))
    start = assumed.start + assumed.start_work / hardware.gpu.cores
    return Hours(step, evaluation, start, start + total_steps(config, counts) * step.total + evaluation)


def learner_decides(roofline: Roofline, laid: Fit, gpus: int) -> int | None:
    """Problems per step from which an update takes longer than play, so that more GPUs for the learner pay; None if it
    never does."""
    problems, config = 1, roofline.config
    while problems <= LARGER * config.train.problems_per_step:
        train = config.train.model_copy(update={"problems_per_step": problems})
        step = step_seconds(replace(roofline, config=config.model_copy(update={"train": train})), laid, gpus)
        if step.update > step.play:
            return problems
        problems *= 2
    return None
