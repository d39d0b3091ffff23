"""The learner at the real shape of a base, on fake tensors: every call is made, nothing is computed or allocated.

It runs as on a GPU: autocast to bfloat16, gradient checkpointing, packs without filler. Two kernels are fakes that save
what the real ones save: `scaled_dot_product_attention` needs none (PyTorch's own is traced), linear attention does
(`fla` has no CPU version; its autograd function saves queries, keys, values, gates and a block of 64 per head).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any
from unittest.mock import patch

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agon.config import Model, Train
from agon.engine.published import RECIPES, TEXT
from agon.engine.trl import row_attention, setup
from agon.engine.trl.batch import BatchRow, tensors
from agon.engine.trl.learner import TRLLearner
from agon.engine.trl.pack import Pack
from agon.protocols import Tokens

CHUNK = 64
Lengths = tuple[tuple[int, int], ...]
"""Tokens of prompts and completions."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One call of an attention kernel, by its arguments."""

    queries: int
    keys: int
    batch: int
    width: int
    """Heads x their size."""
    causal: bool
    mask: tuple[int, ...] | None

    @property
    def work(self) -> float:
        """Products of queries and keys that are computed, times the width."""
        pairs = self.queries * (self.queries + 1) / 2 if self.causal else self.queries * self.keys
        return self.batch * self.width * pairs


@dataclass(slots=True)
class Forward:
    """What one forward pass did."""

    tokens: int
    """Tokens that went through the layers."""
    calls: list[Attention] = field(default_factory=list)
    masks: int = 0
    """Layers that were handed a mask."""
    kept: int = 0
    """Bytes saved for the backward pass, with checkpointing."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Bytes inside the layers."""

    layer: int
    """The most that one layer saves when nothing is computed again."""
    peak: int
    """The most alive at once through a backward pass, weights not counted."""


class FakeLearner:
    """The learner of one base that we know by name, for as long as the context lasts."""

    def __init__(self, name: str, train: Train, *, whole: bool = True) -> None:
        published = (TEXT | RECIPES)[name]
        self.config = published if whole else cut(published)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        with self.mode, _as_on_a_gpu():
            self.learner = TRLLearner(Model(name=name), train, total_steps=1, base=base_of(self.config))
        self.trainer = self.learner.trainer

    def forward(self, lengths: Lengths) -> Forward:
        """The forward pass of rows with these prompts and completions, as the trainer runs it."""
        pack = pack_of(lengths)
        found = Forward(pack.ids.size(1))
        with self.mode, _watched(found):
            model = self.learner.pair.model.train()
            with _Saved(model) as saved:
                self.trainer.run_pack(model, self._faked(pack))
        found.kept = saved.total
        return found

    def inside(self, lengths: Lengths) -> Inside:
        """What the layers hold in a forward and backward pass."""
        pack = pack_of(lengths)
        with self.mode, _watched(Forward(0)):
            self.learner.pair.model.train()
            fake = self._faked(pack)
            return Inside(self._layer(fake), self._peak(fake))

    def _peak(self, pack: Pack) -> int:
        with _Live() as live, self.trainer.accelerator.autocast():
            output = self._backbone(pack)
            output.last_hidden_state.sum().backward()
        self.learner.pair.model.zero_grad(set_to_none=True)
        return live.peak

    def _layer(self, pack: Pack) -> int:
        self.learner.pair.model.gradient_checkpointing_disable()
        try:
            with _Saved(self.learner.pair.model) as saved, self.trainer.accelerator.autocast():
                self._backbone(pack)
        finally:
            kwargs = self.trainer.args.gradient_checkpointing_kwargs
            self.learner.pair.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs)
        return max(saved.by_layer.values())

    def _backbone(self, pack: Pack) -> Any:
        arguments = {key: value for key, value in pack.arguments().items() if key != "shift_labels"}
        return self.learner.pair.model.get_base_model().base_model(**arguments, use_cache=False)

    def _faked(self, pack: Pack) -> Pack:
        given = {each.name: getattr(pack, each.name) for each in fields(pack)}
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        return replace(pack, **{name: self.mode.from_tensor(value) for name, value in tensors.items()})


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """Autocast although there is no GPU; and nothing moves, as parameters of fake tensors cannot be replaced."""
    real, stay = setup.GRPOConfig, lambda *given, **more: None
    with (
        patch.object(setup, "GRPOConfig", lambda **given: real(**{**given, "bf16": True})),
        patch.object(BaseTunerLayer, "_move_adapter_to_device_of_base_layer", stay),
        patch.object(nn.Module, "to", lambda module, *given, **more: module),
    ):
        yield


def cut(config: dict[str, Any]) -> dict[str, Any]:
    """The published config with one layer of each kind, and another of each that shares keys where some do."""
    kinds = [*dict.fromkeys(config.get("layer_types", ["full_attention"]))]
    shared = len(kinds) if config.get("num_kv_shared_layers") else 0
    fewer: dict[str, Any] = {"num_hidden_layers": len(kinds) + shared}
    if "layer_types" in config:
        fewer["layer_types"] = kinds * (2 if shared else 1)
    if shared:
        fewer["num_kv_shared_layers"] = shared
    return config | fewer


def base_of(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.bfloat16)


def pack_of(lengths: Lengths) -> Pack:
    """A pack as the trainer makes it on a GPU."""
    rows = [BatchRow.of(Tokens((5,) * prompt, (6,) * completion), 1.0) for prompt, completion in lengths]
    made = tensors(rows, pad=0)
    ids, mask = (torch.cat([made[f"prompt_{name}"], made[f"completion_{name}"]], 1) for name in ("ids", "mask"))
    return Pack.of(ids, mask, made["completion_ids"].size(1))


@contextmanager
def _watched(found: Forward) -> Iterator[None]:
    """Note every attention call, and let linear attention run without its kernels."""
    from transformers import AttentionInterface
    from transformers.models.qwen3_5 import modeling_qwen3_5

    kernel, attend = row_attention.scaled_dot_product_attention, row_attention.attend

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **more: Any) -> torch.Tensor:
        mask = more.get("attn_mask")
        shape = None if mask is None else tuple(mask.shape)
        causal = bool(more.get("is_causal"))
        width = query.size(1) * query.size(3)
        found.calls.append(Attention(query.size(2), key.size(2), query.size(0), width, causal, shape))
        return kernel(query, key, value, **more)

    def layer(module: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any, **more: Any) -> Any:
        found.masks += mask is not None
        return attend(module, query, key, value, mask, *rest, **more)

    with ExitStack() as stack:
        stack.enter_context(patch.object(row_attention, "scaled_dot_product_attention", call))
        stack.enter_context(patch.object(modeling_qwen3_5, "torch_chunk_gated_delta_rule", _linear_attention))
        AttentionInterface.register(row_attention.ROWS, layer)
        try:
            yield
        finally:
            AttentionInterface.register(row_attention.ROWS, attend)


class _GatedDelta(torch.autograd.Function):
    """Saves what the autograd function of `fla.ops.gated_delta_rule.chunk` saves."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, gate: Any, beta: Any) -> torch.Tensor:
        query, key, value = (x.contiguous() for x in (query, key, value))
        scales = [x.new_empty(x.shape[:3], dtype=torch.float32) for x in (query, key)]
        inverse = key.new_empty((*value.shape[:3], CHUNK))
        ctx.save_for_backward(query, key, value, gate, beta, inverse, *scales)
        return torch.empty_like(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return tuple(map(torch.empty_like, ctx.saved_tensors[:5]))


def _linear_attention(query: Any, key: Any, value: Any, g: Any, beta: Any, **more: Any) -> tuple[torch.Tensor, None]:
    return _GatedDelta.apply(query, key, value, g, beta), None


class _Saved:
    """Bytes of the tensors that are saved for the backward pass, each storage once, weights not counted."""

    def __init__(self, model: Any) -> None:
        self.total, self.by_layer = 0, dict[str, int]()
        self._known = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self._layers = {name: part for name, part in model.named_modules() if name.rpartition(".")[2].isdecimal()}
        self._current, self._held = "", list[Any]()
        self._stack = ExitStack()

    def __enter__(self) -> _Saved:
        for name, part in self._layers.items():
            self._stack.callback(part.register_forward_pre_hook(lambda *_, name=name: self._enter(name)).remove)
            self._stack.callback(part.register_forward_hook(lambda *_: self._enter("")).remove)
        self._stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor))
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()

    def _enter(self, name: str) -> None:
        self._current = name

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if (storage := _storage(tensor)) not in self._known:
            self._known.add(storage)
            self._held.append(tensor)  # its storage's number must not be given to another
            size = tensor.untyped_storage().nbytes()
            self.total += size
            self.by_layer[self._current] = self.by_layer.get(self._current, 0) + size
        return tensor


class _Live(TorchDispatchMode):
    """Bytes of the storages that were made inside the context and still exist; the most at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known = set[int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        given = {_storage(x) for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and _storage(tensor) not in given | self._known:
                self._add(tensor)
        return output

    def _add(self, tensor: torch.Tensor) -> None:
        storage, number = tensor.untyped_storage(), _storage(tensor)
        self._known.add(number)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, number, storage.nbytes())

    def _drop(self, number: int, size: int) -> None:
        self._known.discard(number)
        self.now -= size


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
