"""Loads bases and adapters that may come from a stranger: no code of theirs runs, and an adapter leaves the base as it
was."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agon.engine.base_config import check_on_hub
from agon.errors import ConfigError, EngineError
from agon.rundir.adapter import check_adapter


def load_model(path: str, dtype: Any, *, revision: str | None = None, **more: Any) -> Any:
    """A causal language model, from safetensors, by transformers' own code; `more` is about quantisation."""
    from transformers import AutoModelForCausalLM

    check_on_hub(path, revision)
    try:
        return AutoModelForCausalLM.from_pretrained(
            path, revision=revision, dtype=dtype, trust_remote_code=False, use_safetensors=True, **more
        )
    except Exception as error:  # a damaged file makes transformers raise nearly anything
        raise cannot_load(path, error) from error


def cannot_load(path: str, error: Exception) -> ConfigError:
    kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
    reason = kind + str(error).strip().partition("\n")[0]
    return ConfigError(
        f"cannot load the base {path}: {reason}",
        fix="name a base that transformers knows, with safetensors weights: code of a checkpoint is never run",
    )


def add_adapter(model: Any, folder: Path, name: str, device: str = "cpu", *, digest: str | None = None) -> Any:
    """Put the adapter in `folder` on a base, or on a PeftModel beside others; return the PeftModel.

    `digest`: that of the base, if the caller has computed it before; a base of 135 M parameters takes half a second.
    """
    import torch
    from peft import PeftConfig, PeftModel

    check_adapter(folder)
    before = digest or base_digest(model)
    # PEFT draws an initialisation before it loads, which must not advance the caller's random numbers
    with torch.random.fork_rng(devices=[]):
        try:
            if not isinstance(model, PeftModel):
                model = PeftModel(model, PeftConfig.from_pretrained(folder), adapter_name=name)
            result = model.load_adapter(str(folder), name, torch_device=device)
        except (RuntimeError, ValueError, KeyError) as error:
            raise _misfit(folder, error) from error
    # PEFT also lists tensors of adapters whose names contain this one
    missing = [key for key in result.missing_keys if f".{name}." in key]
    if strays := [*missing, *result.unexpected_keys]:
        raise _misfit(folder, f"{len(strays)} tensors missing or unexpected, such as {strays[0]}")
    own = [tensor for key, tensor in model.named_parameters() if f".{name}." in key]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in own):
        raise _misfit(folder, "it holds numbers that are not finite")
    if base_digest(model) != before:
        raise EngineError(f"loading {folder} changed the base", fix="use a pair that Agon trained")
    return model


def base_digest(model: Any) -> str:
    """A hash of the weights without adapters, the same whether adapters are on the model or not."""
    import torch

    digest = hashlib.sha256()
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    plain = {name.removeprefix("base_model.model.").replace(".base_layer.", "."): t for name, t in tensors.items()}
    for name in sorted(key for key in plain if ".lora_" not in key):
        digest.update(name.encode())
        digest.update(plain[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _misfit(folder: Path, reason: object) -> EngineError:
    return EngineError(f"{folder} does not fit this base: {reason}", fix="publish adapters trained on the same base")
