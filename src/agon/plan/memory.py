"""Bytes of learner and engine by part, from the shape of the base and the config; whether they fit on a GPU.

Activations are counted from what layers save for the backward pass; `benchmarks/memory.py` compares them with
every base of the paper on fake tensors. What CUDA adds is an assumption with a name.

Learner and engine share a GPU, or have GPUs of their own. An engine that sleeps has released its memory while the
learner works, so each may take what the other leaves; one that does not sleep takes its share for good.
"""

from __future__ import annotations

from dataclasses import dataclass

from agon.config import Config, Model, Train
from agon.engine.base import context_of
from agon.engine.devices import gpus_per_engine
from agon.engine.dtypes import learner_dtype
from agon.engine.vllm.local import RANKS
from agon.engine.vllm.placement import BATCHED, SEQUENCES, GpuMemory, placement_of
from agon.formatting import plural
from agon.plan.base_shapes import Layer, Shape
from agon.plan.gpus import GIB, Gpu

TILE = 4096 * 32_768
"""Logits that TRL's fused head computes at once: tokens x vocabulary."""
NF4 = 0.5 + 4 / 64
"""Bytes of a weight in 4 bits: its code, and its part of a float32 scale for 64 weights."""
CONTEXT = GIB // 2
"""Assumption: what CUDA and its libraries take in a process before any tensor."""
GRAPHS = 3 * GIB // 2
"""Assumption: what vLLM's CUDA graphs take, with LoRA and up to 256 sequences."""
CAPTURED = 3
"""Batches of 1, 2 and 4 have a CUDA graph each, and then every multiple of 8."""
NCCL = GIB // 2
"""Assumption: what collectives between the GPUs of one engine take on each."""
HOST = 3 * GIB
"""Assumption: main memory of a process with torch and CUDA, besides weights."""
SPARE = 0.1
"""Assumption: share of the activations that the allocator loses between blocks of different sizes."""
LARGEST_HEAD = 256
"""The largest head that flash attention has kernels for."""
CHUNK = 64
"""Tokens that the kernels of linear attention compute at once."""


@dataclass(frozen=True, slots=True)
class LearnerBytes:
    """What a learner holds; activations are those of its largest forward and backward pass."""

    base: int
    adapters: int
    gradients: int
    adam: int
    kept: int
    """Activations between layers; with checkpointing, all that is kept for the backward pass."""
    layer: int
    """What one layer saves while its backward pass runs; without checkpointing, all layers together."""
    gradients_inside: int
    """Gradients of activations inside a layer, and the float32 ones of the head."""
    head: int
    """A tile of logits, and gradients of the hidden states that were scored."""

    @property
    def static(self) -> int:
        """What stays between passes."""
        return self.base + self.adapters + self.gradients + self.adam

    @property
    def activations(self) -> int:
        """The largest pass: inside a layer, or at the head."""
        return int((self.kept + max(self.layer + self.gradients_inside, self.head)) * (1 + SPARE))

    @property
    def peak(self) -> int:
        return self.static + self.activations


@dataclass(frozen=True, slots=True)
class EngineBytes:
    """What an engine holds on each of its GPUs besides its cache."""

    weights: int
    workspace: int
    """Slots of live adapters, activations of its largest batch, logits of its sequences."""
    graphs: int
    """CUDA graphs, which an engine keeps while it sleeps."""

    @property
    def static(self) -> int:
        return self.weights + self.workspace + self.graphs


@dataclass(frozen=True, slots=True)
class Layout:
    """Who has which GPUs of a node: the learner and its gradient workers the first, engines the last."""

    learners: int
    """The learner and its gradient workers, a GPU each."""
    engines: int
    parallel: int
    """GPUs of each engine."""
    apart: bool
    """Whether no GPU has a learner and an engine."""

    def __str__(self) -> str:
        workers = f" with {plural(self.learners - 1, 'gradient worker')}" if self.learners > 1 else ""
        each = f" of {self.parallel} GPUs" if self.parallel > 1 else ""
        where = "on GPUs of their own" if self.apart else "sharing GPUs"
        return f"1 learner{workers} and {plural(self.engines, 'engine')}{each}, {where}"


def layout_of(config: Config, gpus: int) -> Layout:
    """How a config divides a node of `gpus`; servers have GPUs elsewhere."""
    learners = config.train.gpus
    if config.sampler.urls:
        return Layout(learners, len(config.sampler.urls), 1, apart=True)
    engines, parallel = config.sampler.replicas or 1, gpus_per_engine(config.sampler)
    return Layout(learners, engines, parallel, apart=learners + engines * parallel <= gpus)


@dataclass(frozen=True, slots=True)
class Fit:
    """Memory of one GPU, by part, and what is wrong with it."""

    gpu: Gpu
    learner: LearnerBytes
    engine: EngineBytes | None
    """None for a server, which has GPUs of its own."""
    share: float
    """Of the GPU, for the engine."""
    sleeps: bool
    sequence: int
    """Cache of one sequence as long as the context."""
    most: int
    """Sequences that the engine draws at once, at most."""
    apart: bool
    """Whether learner and engine have GPUs of their own."""

    @property
    def taken(self) -> int:
        """What the engine takes while it draws."""
        return int(self.share * self.gpu.memory) if self.engine else 0

    @property
    def cache(self) -> int:
        """What its share leaves for keys and values."""
        return self.taken - CONTEXT - self.engine.static if self.engine else 0

    @property
    def left(self) -> int:
        """What the engine leaves to the learner while it updates."""
        own = self.gpu.memory - CONTEXT
        if self.engine is None or self.apart:
            return own
        return own - (CONTEXT + self.engine.graphs if self.sleeps else self.taken)

    @property
    def held(self) -> int:
        """What engine and learner hold of a GPU that they share while the engine draws."""
        return self.taken + self.learner.static + CONTEXT if self.engine and not self.apart else 0

    @property
    def short(self) -> int:
        """Bytes that the worst problem lacks; 0 where all fits."""
        cache = self.sequence - self.cache if self.engine else 0
        return max(self.learner.peak - self.left, cache, self.held - self.gpu.memory, 0)

    def problems(self) -> list[str]:
        """What does not fit, one sentence each, with the part that decides."""
        found = []
        if self.learner.peak > self.left:
            pass_, base = gib(self.learner.activations), gib(self.learner.base)
            parts = f"base {base}, longest pass {pass_}"
            found.append(f"an update needs {gib(self.learner.peak)} ({parts}), and {gib(max(self.left, 0))} are left")
        if self.engine and self.cache < self.sequence:
            needed = gib(self.engine.static + CONTEXT + self.sequence)
            found.append(f"the engine needs {needed} for weights and one sequence, and its share is {gib(self.taken)}")
        if self.held > self.gpu.memory:
            found.append(f"engine and learner hold {gib(self.held)} of {gib(self.gpu.memory)} while it draws")
        return found

    def in_flight(self, bytes_each: int) -> int:
        """Completions that are drawn at once, each with so much cache."""
        return max(min(self.most, self.cache // bytes_each), 0)


def fit(config: Config, shape: Shape, gpu: Gpu, gpus: int = 1) -> Fit:
    """Lay a config out on the GPUs of one node: the one that has most to hold."""
    sampler, apart = config.sampler, layout_of(config, gpus).apart
    learner = learner_bytes(shape, config.model, config.train, policies_of(config))
    engine = None if sampler.urls else engine_bytes(shape, config)
    # when an engine starts, the optimizer's state does not exist yet
    left = GpuMemory(gpu.memory - learner.base - learner.adapters - CONTEXT, gpu.memory)
    awake = {"sleep": False} if config.train.staleness else {}  # it draws while the learner works
    placed = placement_of(sampler.model_copy(update=awake), None if apart and engine else left)
    most = int(sampler.options.get("max_num_seqs", SEQUENCES))
    sequence = sequence_bytes(shape, config, context_of(config))
    return Fit(gpu, learner, engine, placed.memory, placed.sleeps and engine is not None, sequence, most, apart)


def learner_bytes(shape: Shape, model: Model, train: Train, policies: int) -> LearnerBytes:
    """A learner at its largest pass: `tokens_per_pass` tokens, or one row that is longer."""
    width, tokens, nf4 = learner_width(model), most_tokens(train), model.quantize == "nf4"
    # one linear map is dequantised at a time, for every product with a base in 4 bits
    unpacked = width * max(linear.size for linear in shape.linears()) if nf4 else 0
    adapter = 4 * shape.adapter_parameters(model.lora)
    # a hidden state before every layer and at the head; of Gemma 4 every layer's own input; the last norms, in float32
    own = sum(layer.per_layer for layer in shape.layers)
    kept = width * (shape.hidden * (len(shape.layers) + 1) + own) + 4 * (shape.hidden + own)
    inside = [saved_per_token(layer, shape.hidden, model.lora.rank, width) for layer in shape.layers]
    # gradients that live together in the MLP's backward pass, where most is alive
    gradients = width * max(3 * layer.intermediate + 2 * shape.hidden for layer in shape.layers)
    return LearnerBytes(
        base=base_bytes(shape, width, nf4=nf4) + unpacked,
        adapters=2 * adapter,
        gradients=policies * adapter,
        adam=2 * policies * adapter,
        kept=tokens * kept,
        layer=tokens * (max(inside) if train.gradient_checkpointing else sum(inside)),
        gradients_inside=tokens * gradients,
        head=width * TILE + tokens * shape.hidden * (4 + 2 * width),
    )


def base_bytes(shape: Shape, width: int, *, nf4: bool) -> int:
    """All weights in `width` bytes; with NF4, linear maps in 0.5625 and embeddings, head and norms in `width`."""
    linear = NF4 if nf4 else width
    return int(linear * shape.multiplied) + width * (shape.parameters - shape.multiplied)


def saved_per_token(layer: Layer, hidden: int, rank: int, width: int) -> int:
    """Bytes that a layer saves for the backward pass, by token. Norms work in float32; a frozen map saves nothing."""
    norms = 4 * hidden * layer.norms
    inputs = width * hidden * (3 if layer.per_layer else 2)
    own_input = width * 4 * layer.per_layer
    adapters = width * rank * len(layer.linears)
    mlp = width * 4 * layer.intermediate
    mixer = _delta_net(layer, width) if layer.kind == "linear" else _attention(layer, width)
    return norms + inputs + own_input + adapters + mlp + mixer


def _attention(layer: Layer, width: int) -> int:
    """Norms of heads, queries, keys and values as the kernel gets them, its output, and the rows joined again. Kernels
    that share keys between heads have no mask, and end at a size of heads: elsewhere keys are copied for every head."""
    copied = layer.window is not None or layer.head_size > LARGEST_HEAD
    normed = 4 * (layer.queries + layer.keys * layer.own_keys * (1 if layer.window is None else 2))
    keys = 2 * (layer.queries if copied else layer.keys)
    output = layer.queries * (4 if layer.gated else 2)
    return normed + width * (layer.queries + keys + output) + 4 * layer.heads


def _delta_net(layer: Layer, width: int) -> int:
    """The convolution's input and output, what the kernel saves, and a gated norm in float32."""
    mixed = 2 * layer.keys + layer.queries
    kernel = width * (mixed + CHUNK * layer.heads) + 16 * layer.heads
    return width * 2 * mixed + kernel + 16 * layer.queries + width * 2 * layer.queries


def engine_bytes(shape: Shape, config: Config) -> EngineBytes:
    """An engine that holds the text model once and its adapters in slots. On several GPUs weights and the inside of a
    layer are divided; hidden states, logits and, as an upper bound, adapters are not."""
    model, max_loras, options = config.model, config.sampler.max_loras, config.sampler.options
    width, sequences = engine_width(model), int(options.get("max_num_seqs", SEQUENCES))
    rank = next(size for size in RANKS if size >= model.lora.rank)
    slots = max_loras * rank * width * sum(linear.inputs + linear.outputs for linear in shape.linears())
    widest = max(2 * layer.intermediate + layer.queries + 2 * layer.keys for layer in shape.layers)
    parallel = gpus_per_engine(config.sampler)
    batch = int(options.get("max_num_batched_tokens", BATCHED)) * width * (2 * widest // parallel + 4 * shape.hidden)
    logits = 3 * 4 * sequences * shape.vocabulary
    sizes = (CAPTURED + sequences // 8) / (CAPTURED + SEQUENCES // 8)
    graphs = 0 if options.get("enforce_eager") else int(sizes * GRAPHS)
    collectives = NCCL if parallel > 1 else 0
    return EngineBytes(engine_weights(shape, config) // parallel, slots + batch + logits + collectives, graphs)


def engine_weights(shape: Shape, config: Config) -> int:
    """Weights of the text model in an engine, on all its GPUs together: in 4 bits only if it loads such a checkpoint,
    else dequantised."""
    nf4, width = "quantization" in config.sampler.options, engine_width(config.model)
    return base_bytes(shape, width, nf4=nf4) - width * shape.towers


def sequence_bytes(shape: Shape, config: Config, tokens: int) -> int:
    """Cache that one sequence takes on each GPU of its engine: keys and values of all its tokens, of a window, or a
    state. Heads are divided over GPUs, and a head is never split."""
    parallel = gpus_per_engine(config.sampler)
    eight_bits = str(config.sampler.options.get("kv_cache_dtype", "")).startswith("fp8")
    cached = sum(
        2 * max(layer.keys // parallel, layer.head_size) * min(tokens, layer.window or tokens)
        for layer in shape.layers
        if layer.own_keys and layer.kind != "linear"
    )
    states = 4 * sum(layer.state for layer in shape.layers) // parallel
    return (1 if eight_bits else engine_width(config.model)) * cached + states


def host_bytes(shape: Shape, config: Config, layout: Layout, sleeps: bool) -> int:
    """Main memory of a node: processes, and the larger of bases on their way to GPUs and weights of sleeping engines,
    which are pinned."""
    width, nf4 = learner_width(config.model), config.model.quantize == "nf4"
    base = base_bytes(shape, width, nf4=nf4)
    loaded = base + width * shape.parameters if nf4 else layout.learners * base  # it is quantised in one process
    pinned = layout.engines * engine_weights(shape, config) if sleeps else 0
    return max(loaded, pinned) + (layout.learners + layout.engines * layout.parallel) * HOST


def engine_width(model: Model) -> int:
    """Bytes of a number in an engine's base."""
    return 4 if model.dtype == "float32" else 2


def learner_width(model: Model) -> int:
    """Bytes of a number in the learner's base."""
    return 2 if learner_dtype(model.dtype) == "bfloat16" else 4


def longest_row(train: Train) -> int:
    """Tokens of the longest row that an update may meet."""
    return train.max_completion_tokens + train.max_peek_tokens


def most_tokens(train: Train) -> int:
    """Tokens of the largest forward pass: a row that is longer than the limit goes alone."""
    return max(train.tokens_per_pass, longest_row(train))


def policies_of(config: Config) -> int:
    return 2 if config.game.opponent == "rival" else 1


def gib(size: float) -> str:
    return f"{size / GIB:,.1f} GiB"
