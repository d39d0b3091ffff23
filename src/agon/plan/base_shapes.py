"""The sizes of a base from its published config alone: parameters, adapters, cache and arithmetic, without torch.

A layer is its linear maps and what its attention is: full, over a window, or linear with a state of fixed size. Three
architectures are known by name, those of the paper's bases; anything else with the keys of a plain decoder is taken for
one. `tests/plan/test_base_shapes.py` builds each base on the meta device and counts the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agon.config import Lora
from agon.errors import ConfigError, EngineError

Kind = Literal["full", "sliding", "linear"]
Config = Mapping[str, Any]
TOWERS = {"gemma4": 450_000_000}
"""Parameters for images and sound that the learner loads with the text model: Gemma 4's model card."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map: the last part of its path, and its sizes."""

    name: str
    inputs: int
    outputs: int

    @property
    def size(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a decoder."""

    kind: Kind
    heads: int
    queries: int
    """Width of all queries, heads x their size."""
    keys: int
    """Width of all keys, and of all values."""
    intermediate: int
    linears: tuple[Linear, ...]
    others: int
    """Parameters outside of its linear maps: norms, convolutions."""
    own_keys: bool = True
    """Whether it computes keys and values, and so caches them, or takes those of an earlier layer."""
    window: int | None = None
    gated: bool = False
    """Whether the attention's output is multiplied by a gate."""
    norms: int = 2
    """Norms over the hidden state."""
    per_layer: int = 0
    """Width of an input of its own for every token, as in Gemma 4."""
    state: int = 0
    """Numbers that linear attention keeps of a sequence, whatever its length."""

    @property
    def head_size(self) -> int:
        return self.queries // self.heads


@dataclass(frozen=True)
class Shape:
    """A base: its layers, and what is around them."""

    kind: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    others: int
    """Parameters outside of layers, the head and the embeddings of tokens."""
    shared_linears: tuple[Linear, ...] = ()
    """Linear maps outside of layers that carry an adapter."""
    tied: bool = True
    towers: int = 0

    @cached_property
    def text_parameters(self) -> int:
        """Of the text model, which is all that an engine loads."""
        layers = sum(sum(linear.size for linear in layer.linears) + layer.others for layer in self.layers)
        shared = sum(linear.size for linear in self.shared_linears)
        return layers + shared + self.others + (1 if self.tied else 2) * self.head

    @property
    def parameters(self) -> int:
        """Of all that the learner loads."""
        return self.text_parameters + self.towers

    @property
    def multiplied(self) -> int:
        """Parameters that every token is multiplied with, the head not counted."""
        return sum(linear.size for linear in self.linears())

    @property
    def head(self) -> int:
        """Parameters of the head."""
        return self.vocabulary * self.hidden

    @property
    def has_linear_attention(self) -> bool:
        return any(layer.kind == "linear" for layer in self.layers)

    def linears(self) -> Iterable[Linear]:
        """Every linear map that text passes through, the head not counted."""
        yield from self.shared_linears
        for layer in self.layers:
            yield from layer.linears

    def adapted(self, lora: Lora) -> list[Linear]:
        """The linear maps that carry an adapter under these settings."""
        linears = list(self.linears())
        if lora.layers is not None:
            if lora.layers > len(self.layers):
                raise ConfigError(
                    f"model.lora.layers is {lora.layers}, and the base has {len(self.layers)} layers",
                    fix=f"set model.lora.layers to at most {len(self.layers)}, or to null for all",
                )
            linears = [linear for layer in self.layers[-lora.layers :] for linear in layer.linears]
        if lora.targets == "all-linear":
            return linears
        names = [lora.targets] if isinstance(lora.targets, str) else lora.targets
        chosen = [linear for linear in linears if linear.name in names]
        if missing := set(names) - {linear.name for linear in chosen}:
            raise ConfigError(
                f"model.lora.targets: no linear layer is called {', '.join(sorted(missing))}",
                fix="set model.lora.targets=all-linear, or name linear layers of this base other than its output head",
            )
        return chosen

    def adapter_parameters(self, lora: Lora) -> int:
        """Parameters of one adapter."""
        return sum(lora.rank * (linear.inputs + linear.outputs) for linear in self.adapted(lora))


def shape_of(config: Config) -> Shape:
    """The shape that a base's config.json describes."""
    text: Config = config.get("text_config") or config
    kind = str(text.get("model_type", "")).removesuffix("_text")
    try:
        if kind == "qwen3_5":
            return _qwen3_5(text)
        if kind == "gemma4":
            return _gemma4(text, towers=TOWERS["gemma4"])
        if any("expert" in key and value for key, value in text.items()):
            raise EngineError("experts are not planned for", fix="plan with a dense base")
        return _decoder(text, kind)
    except KeyError as error:
        raise EngineError(
            f"its config.json has no {error}", fix="plan with a base whose config.json is complete"
        ) from error


def _decoder(text: Config, kind: str) -> Shape:
    """Qwen3 and other plain decoders: attention and a gated MLP in every layer."""
    hidden, inner, heads = text["hidden_size"], text["intermediate_size"], text["num_attention_heads"]
    head = text.get("head_dim") or hidden // heads
    queries, keys = heads * head, text.get("num_key_value_heads", heads) * head
    others = 2 * hidden + (2 * head if kind == "qwen3" else 0)
    layer = Layer(
        "full", heads, queries, keys, inner, (*_attention(hidden, queries, keys), *_mlp(hidden, inner)), others
    )
    tied = bool(text.get("tie_word_embeddings", False))
    return Shape(kind, hidden, text["vocab_size"], (layer,) * text["num_hidden_layers"], hidden, tied=tied)


def _qwen3_5(text: Config) -> Shape:
    """Linear attention in most layers, and gated full attention in the others."""
    hidden, inner, heads, head = (
        text[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "head_dim")
    )
    queries, keys = heads * head, text["num_key_value_heads"] * head
    attention = Linear("q_proj", hidden, 2 * queries), *_attention(hidden, queries, keys)[1:]
    full = Layer(
        "full", heads, queries, keys, inner, (*attention, *_mlp(hidden, inner)), 2 * hidden + 2 * head, gated=True
    )
    linear = _delta_net(text, hidden, inner)
    layers = tuple(full if kind == "full_attention" else linear for kind in text["layer_types"])
    tied = bool(text.get("tie_word_embeddings", False))
    return Shape("qwen3_5", hidden, text["vocab_size"], layers, hidden, tied=tied)


def _delta_net(text: Config, hidden: int, inner: int) -> Layer:
    """Gated DeltaNet: a state of key size x value size per head, instead of a cache."""
    heads, width = text["linear_num_value_heads"], text["linear_value_head_dim"]
    keys, values = text["linear_num_key_heads"] * text["linear_key_head_dim"], heads * width
    mixed = 2 * keys + values
    linears = (
        Linear("in_proj_qkv", hidden, mixed),
        Linear("in_proj_z", hidden, values),
        Linear("in_proj_b", hidden, heads),
        Linear("in_proj_a", hidden, heads),
        Linear("out_proj", values, hidden),
    )
    others = 2 * hidden + mixed * text["linear_conv_kernel_dim"] + 2 * heads + width
    state = values * text["linear_key_head_dim"]
    return Layer(
        "linear", heads, values, keys, inner, (*linears, *_mlp(hidden, inner)), others, gated=True, state=state
    )


def _gemma4(text: Config, towers: int) -> Shape:
    """Windows in most layers, keys and values shared by the last ones, and an input of its own in every layer."""
    hidden, count, extra = text["hidden_size"], text["num_hidden_layers"], text["hidden_size_per_layer_input"]
    first_shared = count - text["num_kv_shared_layers"]
    layers = tuple(
        _gemma4_layer(text, n, kind == "sliding_attention", n < first_shared)
        for n, kind in enumerate(text["layer_types"])
    )
    per_layer = text["vocab_size_per_layer_input"] * count * extra
    shared = Linear("per_layer_model_projection", hidden, count * extra)
    others = hidden + per_layer + extra
    tied = bool(text.get("tie_word_embeddings", True))
    return Shape("gemma4", hidden, text["vocab_size"], layers, others, (shared,), tied, towers)


def _gemma4_layer(text: Config, number: int, sliding: bool, own_keys: bool) -> Layer:
    hidden, inner, extra = text["hidden_size"], text["intermediate_size"], text["hidden_size_per_layer_input"]
    heads, named = text["num_attention_heads"], (text.get("per_layer_config") or {}).get(str(number), {})
    head = named.get("head_dim") or (text["head_dim"] if sliding else text["global_head_dim"])
    queries, keys = heads * head, text["num_key_value_heads"] * head
    attention = [
        linear for linear in _attention(hidden, queries, keys) if own_keys or linear.name not in ("k_proj", "v_proj")
    ]
    own = Linear("per_layer_input_gate", hidden, extra), Linear("per_layer_projection", extra, hidden)
    return Layer(
        "sliding" if sliding else "full",
        heads,
        queries,
        keys,
        inner,
        (*attention, *_mlp(hidden, inner), *own),
        others=5 * hidden + head * (2 if own_keys else 1),
        own_keys=own_keys,
        window=text["sliding_window"] if sliding else None,
        norms=5,
        per_layer=extra,
    )


def _attention(hidden: int, queries: int, keys: int) -> tuple[Linear, ...]:
    return (
        Linear("q_proj", hidden, queries),
        Linear("k_proj", hidden, keys),
        Linear("v_proj", hidden, keys),
        Linear("o_proj", queries, hidden),
    )


def _mlp(hidden: int, inner: int) -> tuple[Linear, ...]:
    return Linear("gate_proj", hidden, inner), Linear("up_proj", hidden, inner), Linear("down_proj", inner, hidden)
