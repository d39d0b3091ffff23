"""The pair in memory: one frozen base, one PeftModel, adapters `a` and `b`.

A starts as the base (lora_B is zero). B starts with Gaussian noise in lora_B: the paper says "small Gaussian noise
around the zero matrix" and gives no size. Either may start from an adapter on disk instead (`model.init`). Adapters are
float32 masters whatever the dtype of the base.

PEFT's `set_adapter`, `add_adapter`, `disable_adapter` and `load_adapter` all freeze the inactive adapter. Here both
stay trainable at all times: parameter lists are explicit and the flags are restored after every switch. Files are
written and read by those lists too, since PEFT guesses which part of a tensor's name is the adapter's.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file, save_file
from torch import nn

from agon.config import Init, Lora
from agon.engine.shipped import init_folders
from agon.errors import CheckpointError, ConfigError
from agon.rundir.adapter import check_adapter
from agon.types import Policy, seed_for

WEIGHTS = "adapter_model.safetensors"
TOWERS = ("vision", "visual", "audio", "image", "multi_modal", "multimodal")
"""Parts of the module paths of towers and projectors that text never passes through."""
_LAYER = re.compile(r".*?\.[^.]*\.(\d+)\.")
"""Where PEFT finds the number of a layer in a module's path."""


class AdapterPair:
    """Both policies over one base; exactly one is active at a time, both are always trainable."""

    def __init__(self, model: PeftModel) -> None:
        self.model = model
        self._named = {policy: _parameters(model, policy) for policy in Policy}
        self.restore_flags()

    def named_parameters(self, policy: Policy) -> dict[str, nn.Parameter]:
        """The policy's own parameters by name: the explicit list that optimizer, clipping and hashes use."""
        return self._named[policy]

    def parameters(self, policy: Policy) -> list[nn.Parameter]:
        return list(self._named[policy].values())

    def activate(self, policy: Policy) -> None:
        """Make `policy` the one that the next forward and its backward run through."""
        if self.model.active_adapters != [policy.value]:
            self.model.set_adapter(policy.value)
        self.restore_flags()

    def restore_flags(self) -> None:
        """Make both adapters require gradients again, whatever PEFT froze."""
        for policy in Policy:
            for parameter in self._named[policy].values():
                parameter.requires_grad_(True)

    @contextmanager
    def base_only(self) -> Iterator[None]:
        """Adapters off: the frozen base, which is the KL reference."""
        with self.model.disable_adapter():
            yield
        self.restore_flags()

    def _set(self, policy: Policy, weights: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in weights.items():
                self._named[policy][name].copy_(tensor)

    def targets(self) -> list[str]:
        """Module paths that carry an adapter, in order."""
        mark = f".lora_A.{Policy.A.value}."
        names = [name.split(mark)[0] for name in self._named[Policy.A] if mark in name]
        return [name.removeprefix("base_model.model.") for name in names]

    def export(self, policy: Policy, folder: Path) -> str:
        """Write a plain PEFT directory; return a hash of its weights."""
        folder.mkdir(parents=True, exist_ok=True)
        state = self._state(policy)
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
        (folder / "adapter_config.json").write_text(
            json.dumps(_plain(self.model.peft_config[policy.value]), indent=2) + "\n"
        )
        return _digest(state)

    def hash(self, policy: Policy) -> str:
        """The hash of the policy's weights as they are now."""
        return _digest(self._state(policy))

    def load(self, policy: Policy, folder: Path) -> None:
        """Read weights that `export` wrote; refuse a directory whose tensors are not this adapter's."""
        self._set(policy, self._read(policy, folder))

    def _read(self, policy: Policy, folder: Path) -> dict[str, torch.Tensor]:
        state, mine = load_file(folder / WEIGHTS), self._state(policy)
        if {name: t.shape for name, t in state.items()} != {name: t.shape for name, t in mine.items()}:
            raise CheckpointError(
                f"{folder} does not hold an adapter of this shape",
                fix="check model.name, model.lora.rank, .targets and .layers against those it was trained with",
            )
        return {name: state[_file_name(name, policy)] for name in self._named[policy]}

    def _state(self, policy: Policy) -> dict[str, torch.Tensor]:
        state = {_file_name(name, policy): p.detach().cpu().contiguous() for name, p in self._named[policy].items()}
        return dict(sorted(state.items()))


def build_pair(base: Any, lora: Lora, init: Init, seed: int) -> AdapterPair:
    """Put adapters `a` and `b` on a frozen base; the same seed gives the same weights on every machine and process."""
    settings = _settings(base, lora)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(seed, "lora", Policy.A))
        with warnings.catch_warnings():
            # the name "a" is part of "lora_", which matters only to PEFT's own loading of files
            warnings.filterwarnings("ignore", message="Adapter name 'a' should not be contained")
            model = get_peft_model(base, LoraConfig(**settings), adapter_name=Policy.A.value)
        torch.manual_seed(seed_for(seed, "lora", Policy.B))
        model.add_adapter(Policy.B.value, LoraConfig(**settings))
        pair = AdapterPair(model)
        _add_noise(pair, init.b_noise_std)
    for policy, folder in init_folders(init).items():
        _check_settings(policy, folder, lora)
        pair.load(policy, folder)
    pair.activate(Policy.A)
    return pair


def keep_input_dtype(model: Any) -> None:
    """Let autocast alone choose the precision of adapters: PEFT copies every input to float32 for it to cast back."""
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.cast_input_dtype_enabled = False


def _check_settings(policy: Policy, folder: Path, lora: Lora) -> None:
    """Refuse an adapter that would be scaled differently here than where it was trained."""
    theirs = check_adapter(folder)
    if (theirs.r, theirs.lora_alpha, theirs.use_rslora) != (lora.rank, lora.alpha, False):
        raise ConfigError(
            f"model.init.{policy.value}: {folder} has rank {theirs.r} and alpha {theirs.lora_alpha:g}"
            f"{' with rsLoRA' if theirs.use_rslora else ''}, model.lora has {lora.rank} and {lora.alpha}",
            fix=f"set model.lora.rank={theirs.r} model.lora.alpha={theirs.lora_alpha:g}; rsLoRA is not supported",
        )


def linear_targets(base: Any) -> list[str]:
    """Paths of every linear layer that text passes through, without the output head."""
    head = base.get_output_embeddings()
    return [
        name
        for name, module in base.named_modules()
        if isinstance(module, nn.Linear) and module is not head and not any(word in name for word in TOWERS)
    ]


def adapted(base: Any, lora: Lora) -> list[str]:
    """Paths of the linear layers that carry an adapter under these settings."""
    linear = linear_targets(base)
    if lora.layers is not None:
        last = set(last_layers(base, lora.layers))
        linear = [path for path in linear if (layer := _LAYER.match(path)) and int(layer[1]) in last]
    if lora.targets == "all-linear":
        return linear
    names = [lora.targets] if isinstance(lora.targets, str) else lora.targets
    chosen = [path for path in linear if path.rsplit(".", 1)[-1] in names]
    if missing := set(names) - {path.rsplit(".", 1)[-1] for path in chosen}:
        raise ConfigError(
            f"model.lora.targets: no linear layer is called {', '.join(sorted(missing))}",
            fix="set model.lora.targets=all-linear, or name linear layers of this base other than its output head",
        )
    return chosen


def last_layers(base: Any, count: int) -> list[int]:
    """The numbers of the last `count` layers of a base."""
    layers = int(base.config.get_text_config().num_hidden_layers)
    if count > layers:
        raise ConfigError(
            f"model.lora.layers is {count}, and the base has {layers} layers",
            fix=f"set model.lora.layers to at most {layers}, or to null for all",
        )
    return list(range(layers - count, layers))


def _settings(base: Any, lora: Lora) -> dict[str, Any]:
    """LoRA settings with targets by last name; other layers that happen to share one are excluded."""
    targets = adapted(base, lora)
    last = {path.rsplit(".", 1)[-1] for path in targets}
    everywhere = set(adapted(base, lora.model_copy(update={"layers": None})))  # PEFT itself leaves out other layers
    others = [n for n, m in base.named_modules() if n.rsplit(".", 1)[-1] in last and n not in everywhere]
    return {
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "task_type": "CAUSAL_LM",
        "target_modules": sorted(last),
        "exclude_modules": sorted(others) or None,
        "layers_to_transform": None if lora.layers is None else last_layers(base, lora.layers),
    }


def _add_noise(pair: AdapterPair, std: float) -> None:
    with torch.no_grad():
        for name, parameter in pair.named_parameters(Policy.B).items():
            if ".lora_B." in name:
                noise = torch.randn(parameter.shape, dtype=torch.float32) * std
                parameter.copy_(noise.to(parameter.device))


def _parameters(model: PeftModel, policy: Policy) -> dict[str, nn.Parameter]:
    marks = tuple(f".lora_{side}.{policy.value}." for side in "AB")
    return {name: p for name, p in model.named_parameters() if any(mark in name for mark in marks)}


def _file_name(name: str, policy: Policy) -> str:
    """A parameter's name in a PEFT directory: without the adapter's."""
    for side in "AB":
        name = name.replace(f".lora_{side}.{policy.value}.", f".lora_{side}.")
    return name


def _plain(config: LoraConfig) -> dict[str, Any]:
    """The adapter's config as JSON with sorted sets, so that equal adapters give equal files."""
    fields = config.to_dict() | {"inference_mode": True}
    return {key: sorted(value) if isinstance(value, set) else value for key, value in sorted(fields.items())}


def _digest(state: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in state.items():
        digest.update(f"{name}\x1f{tensor.dtype}\x1f{tuple(tensor.shape)}\x1f".encode())
        digest.update(tensor.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
