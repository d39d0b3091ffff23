"""The sizes of a base and of its adapters, without loading a weight: the model is built on the meta device."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import constants
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from agon.config import Model
from agon.engine.adapters import adapted
from agon.engine.linear_attention import has_linear_attention
from agon.errors import EngineError


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that memory and traffic follow from."""

    base_parameters: int
    adapter_parameters: int
    layers: int
    hidden: int
    widest: int
    vocabulary: int
    linear_attention: bool


def hub_answers(timeout: float = 5.0) -> bool:
    """Whether the model hub can be reached; its own client retries for half a minute, with warnings."""
    if constants.is_offline_mode():
        return False
    try:
        urllib.request.urlopen(urllib.request.Request(constants.ENDPOINT, method="HEAD"), timeout=timeout)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def shape_of(model: Model, path: str) -> Shape:
    """Count the parameters of the base and of one adapter; needs the base's config.json, not its weights."""
    try:
        offline = not Path(path).is_dir() and not hub_answers()
        config = AutoConfig.from_pretrained(
            path, trust_remote_code=False, revision=model.revision, local_files_only=offline
        )
    except OSError as error:
        raise EngineError(f"cannot read the config of {model.name}", fix="check model.name and the network") from error
    with torch.device("meta"):
        base = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    text = config.get_text_config()
    linear = {name: module for name, module in base.named_modules() if isinstance(module, nn.Linear)}
    carrying = [linear[name] for name in adapted(base, model.lora)]
    return Shape(
        base_parameters=sum(parameter.numel() for parameter in base.parameters()),
        adapter_parameters=sum(model.lora.rank * (layer.in_features + layer.out_features) for layer in carrying),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        widest=max(layer.out_features for layer in carrying),
        vocabulary=text.vocab_size,
        linear_attention=has_linear_attention(text),
    )
