"""Bytes of a learner and of an engine, by part, from the shape of the base and the config.

The learner's activations are counted from what its layers save for the backward pass: `evidence/learner_shape.py` runs
every base of the paper on fake tensors and compares. What a GPU adds to both is an assumption with a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from agon.config import Config, Model, Train
from agon.engine.backend import backend_of
from agon.engine.devices import gpus_per_engine
from agon.engine.dtypes import learner_dtype
from agon.engine.vllm.local import RANKS
from agon.engine.vllm.placement import BATCHED, SEQUENCES
from agon.formatting import plural
from agon.plan.base_shapes import Layer, Shape
from agon.plan.gpus import GIB

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
"""Assumption: what collectives between several GPUs take on each."""
HOST = 3 * GIB
"""Assumption: main memory of a process with torch and CUDA, besides weights."""
TEXT = 3
"""Assumption: bytes of a completion's text per token, as a run stores it."""
PUBLISHED = 2
"""Versions of each adapter that are published at once."""
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
    def saved(self) -> int:
        """Tensors saved for the backward pass, at their peak."""
        return self.kept + self.layer

    @property
    def activations(self) -> int:
        """The largest pass: inside a layer, or at the head."""
        return int((self.kept + max(self.layer + self.gradients_inside, self.head)) * (1 + SPARE))

    @property
    def peak(self) -> int:
        return self.static + self.activations


@dataclass(frozen=True, slots=True)
class EngineBytes:
    """What an engine holds besides its cache."""

    weights: int
    slots: int
    """Room for the adapters that are live."""
    workspace: int
    """Activations of its largest batch, logits of its sequences."""
    graphs: int
    """CUDA graphs, which an engine keeps while it sleeps."""

    @property
    def static(self) -> int:
        return self.weights + self.slots + self.workspace + self.graphs


def learner_bytes(shape: Shape, model: Model, train: Train, policies: int, learners: int = 1) -> LearnerBytes:
    """One of `learners` at its largest pass: `tokens_per_pass` tokens, or one row that is longer."""
    width, tokens = learner_width(model), most_tokens(train)
    base = base_bytes(shape, width, nf4=model.quantize == "nf4") + unpacked_bytes(shape, model)
    if train.shard == "base":
        base = base // learners + gathered_bytes(shape, width)
    adapter = 4 * shape.adapter_parameters(model.lora)
    inside = [saved_per_token(layer, shape.hidden, model.lora.rank, width) for layer in shape.layers]
    return LearnerBytes(
        base=base,
        adapters=2 * adapter,
        gradients=policies * adapter,
        adam=2 * policies * adapter,
        kept=tokens * kept_per_token(shape, width),
        layer=tokens * (max(inside) if train.gradient_checkpointing else sum(inside)),
        gradients_inside=tokens * max(gradients_per_token(layer, shape.hidden, width) for layer in shape.layers),
        head=width * TILE + tokens * shape.hidden * (4 + 2 * width),
    )


def base_bytes(shape: Shape, width: int, *, nf4: bool) -> int:
    """All weights in `width` bytes; with NF4, linear maps in 0.5625 and embeddings, head and norms in `width`."""
    linear = NF4 if nf4 else width
    return int(linear * shape.multiplied) + width * (shape.parameters - shape.multiplied)


def unpacked_bytes(shape: Shape, model: Model) -> int:
    """The linear map that is dequantised at the moment, at most: one is, for every product with a base in 4 bits."""
    return learner_width(model) * max(linear.size for linear in shape.linears()) if model.quantize == "nf4" else 0


def gathered_bytes(shape: Shape, width: int) -> int:
    """What a learner of a split base holds whole during a pass: the layer that it computes and the next, and all
    weights outside of layers."""
    layers = [sum(linear.size for linear in layer.linears) + layer.others for layer in shape.layers]
    return width * (2 * max(layers) + shape.parameters - sum(layers))


def kept_per_token(shape: Shape, width: int) -> int:
    """A hidden state before every layer and at the head; the last norm, in float32; of Gemma 4 every layer's own
    input, and its norm."""
    own = sum(layer.per_layer for layer in shape.layers)
    return width * (shape.hidden * (len(shape.layers) + 1) + own) + 4 * (shape.hidden + own)


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
    """Norms of heads, queries, keys and values as the kernel gets them, its output, and the rows joined again."""
    normed = 4 * (layer.queries + layer.keys * layer.own_keys * (1 if layer.window is None else 2))
    keys = 2 * (layer.queries if expands_keys(layer) else layer.keys)
    output = layer.queries * (4 if layer.gated else 2)
    return normed + width * (layer.queries + keys + output) + 4 * layer.heads


def _delta_net(layer: Layer, width: int) -> int:
    """The convolution's input and output, what the kernel saves, and a gated norm in float32."""
    mixed = 2 * layer.keys + layer.queries
    kernel = width * (mixed + CHUNK * layer.heads) + 16 * layer.heads
    return width * 2 * mixed + kernel + 16 * layer.queries + width * 2 * layer.queries


def expands_keys(layer: Layer) -> bool:
    """Whether keys are copied for every head of queries: kernels that share them have no mask, and end at a size."""
    return layer.window is not None or layer.head_size > LARGEST_HEAD


def gradients_per_token(layer: Layer, hidden: int, width: int) -> int:
    """Gradients of activations that live together in the MLP's backward pass, where most is alive."""
    return width * (3 * layer.intermediate + 2 * hidden)


def engine_bytes(shape: Shape, config: Config) -> EngineBytes:
    """An engine that holds the text model once and its adapters in slots, on each of its GPUs.

    Weights and the inside of a layer are divided; hidden states, logits and, as an upper bound, adapters are not.
    """
    model, max_loras, options = config.model, config.sampler.max_loras, config.sampler.options
    width, sequences = engine_width(model), int(options.get("max_num_seqs", SEQUENCES))
    rank = next(size for size in RANKS if size >= model.lora.rank)
    slots = max_loras * rank * width * sum(linear.inputs + linear.outputs for linear in shape.linears())
    widest = max(2 * layer.intermediate + layer.queries + 2 * layer.keys for layer in shape.layers)
    parallel = gpus_per_engine(config.sampler)
    inside = 2 * widest // parallel + 4 * shape.hidden
    batch = int(options.get("max_num_batched_tokens", BATCHED)) * width * inside
    logits = 3 * 4 * sequences * shape.vocabulary
    sizes = (CAPTURED + sequences // 8) / (CAPTURED + SEQUENCES // 8)
    graphs = 0 if options.get("enforce_eager") else int(sizes * GRAPHS)
    collectives = NCCL if parallel > 1 else 0
    return EngineBytes(engine_weights(shape, config) // parallel, slots, batch + logits + collectives, graphs)


def engine_weights(shape: Shape, config: Config) -> int:
    """Weights of the text model in an engine, on all its GPUs together: in 4 bits only if it loads such a checkpoint,
    else dequantised."""
    nf4 = "quantization" in config.sampler.options
    return base_bytes(shape, engine_width(config.model), nf4=nf4) - engine_width(config.model) * shape.towers


def sequence_bytes(shape: Shape, config: Config, tokens: int) -> int:
    """Cache that one sequence takes on each GPU of its engine: keys and values of all its tokens, of a window, or a
    state. Heads are divided over GPUs, and a head is never split."""
    parallel = gpus_per_engine(config.sampler)
    eight_bits = str(config.sampler.options.get("kv_cache_dtype", "")).startswith("fp8")
    width = 1 if eight_bits else engine_width(config.model)
    cached = sum(
        2 * max(layer.keys // parallel, layer.head_size) * min(tokens, layer.window or tokens)
        for layer in shape.layers
        if caches(layer)
    )
    return width * cached + 4 * sum(layer.state for layer in shape.layers) // parallel


def caches(layer: Layer) -> bool:
    return layer.own_keys and layer.kind != "linear"


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Who has which GPUs of a node: learners the first, engines the last."""

    learners: int
    engines: int
    parallel: int
    """GPUs of each engine."""
    apart: bool
    """Whether no GPU has a learner and an engine."""

    def __str__(self) -> str:
        each = f" of {self.parallel} GPUs" if self.parallel > 1 else ""
        where = "on GPUs of their own" if self.apart else "on the same GPUs"
        return f"{plural(self.learners, 'learner')} and {plural(self.engines, 'engine')}{each}, {where}"


def engines_on_nodes(config: Config) -> int:
    """Engines that a cluster places; none without one."""
    return config.cluster.samplers if config.cluster.engine != "none" else 0


def layout_of(config: Config, gpus: int) -> Layout:
    """A node of `gpus` as a config divides it: engines that leave GPUs free leave them to learners alone."""
    parallel = gpus_per_engine(config.sampler)
    if config.sampler.urls:
        return Layout(gpus, len(config.sampler.urls), 1, apart=True)
    if placed := engines_on_nodes(config):  # of a cluster, of which this may be one
        left = gpus - placed * parallel
        return Layout(left if left > 0 else gpus, placed, parallel, apart=True)
    engines = config.sampler.replicas or max(gpus // parallel, 1)
    left = gpus - engines * parallel
    return Layout(left, engines, parallel, apart=True) if left > 0 else Layout(gpus, engines, parallel, apart=False)


def learners_of(config: Config, gpus: int) -> int:
    """Learner processes to start on a node of `gpus`."""
    alone = config.model.two_bases or not backend_of(config).trains_here
    return 1 if alone or gpus < 2 else layout_of(config, gpus).learners


@dataclass(frozen=True, slots=True)
class NodeBytes:
    """What a run takes of a node outside of its GPUs."""

    host: int
    """Main memory: processes, and the larger of bases on their way to a GPU and weights of engines that sleep."""
    pinned: int
    """Of that, weights of engines that sleep, which the system cannot swap out."""
    disk: int
    """The base, also as it was quantised, checkpoints and bouts; neither packages nor data sets."""


def node_bytes(
    shape: Shape, config: Config, layout: Layout, sleeps: bool, steps: int, completions: int, mean: int
) -> NodeBytes:
    """Learners, and a process for each GPU of an engine; `completions` of `mean` tokens are stored."""
    width, nf4 = learner_width(config.model), config.model.quantize == "nf4"
    base = base_bytes(shape, width, nf4=nf4)
    quantising = (base + width * shape.parameters) if nf4 else 0  # one process does it, before the first run
    loaded = max(base * (1 if config.train.shard == "base" else layout.learners), quantising)
    pinned = layout.engines * engine_weights(shape, config) if sleeps else 0
    adapters = 2 * 4 * shape.adapter_parameters(config.model.lora)
    whole = min(config.save.keep, steps // config.save.every + 1)
    saved = adapters * (3 * whole + config.eval.points + 1 + PUBLISHED)  # Adam's state is twice an adapter's size
    return NodeBytes(
        host=max(loaded, pinned) + (layout.learners + layout.engines * layout.parallel) * HOST,
        pinned=pinned,
        disk=2 * shape.parameters + quantising + saved + TEXT * mean * completions,
    )
