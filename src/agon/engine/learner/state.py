"""The learner's state on disk: tensors in safetensors, the rest in JSON. Nothing is pickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from agon.engine.adapters import AdapterPair
from agon.errors import CheckpointError
from agon.types import Policy

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"


def save_state(folder: Path, pair: AdapterPair, optimizer: Any, step: int) -> None:
    """Write the optimizer's moments and the step; rates and random numbers follow from the step."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_moments(pair, optimizer), folder / OPTIMIZER)
    (folder / STATE).write_text(json.dumps({"step": step}) + "\n")


def load_state(folder: Path, pair: AdapterPair, optimizer: Any) -> int:
    """Restore what `save_state` wrote and return the step."""
    _load_moments(load_file(folder / OPTIMIZER), pair, optimizer)
    return int(json.loads((folder / STATE).read_text())["step"])


def _moments(pair: AdapterPair, optimizer: Any) -> dict[str, torch.Tensor]:
    """Every tensor of the optimizer under `policy/parameter/field`; a policy that never moved has none."""
    return {
        f"{policy.value}/{name}/{field}": value.detach().cpu().contiguous()
        for policy in Policy
        for name, parameter in pair.named_parameters(policy).items()
        for field, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def _load_moments(saved: dict[str, torch.Tensor], pair: AdapterPair, optimizer: Any) -> None:
    order = [f"{policy.value}/{name}" for policy in Policy for name in pair.named_parameters(policy)]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in saved.items():
        name, field = key.rsplit("/", 1)
        if name not in order:
            raise CheckpointError(
                f"the checkpoint has optimizer state for {name}, which this model does not have",
                fix="resume with the model.name and model.lora that the run was started with",
            )
        state.setdefault(order.index(name), {})[field] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
