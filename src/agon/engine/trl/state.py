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

OPTIMIZER, RNG, STATE = "optimizer.safetensors", "rng.safetensors", "state.json"


def save_state(folder: Path, pair: AdapterPair, optimizer: Any, scheduler: Any, step: int) -> None:
    """Write optimizer, schedule, random generators and step."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_moments(pair, optimizer), folder / OPTIMIZER)
    save_file(_generators(), folder / RNG)
    schedule = {key: value for key, value in scheduler.state_dict().items() if key != "lr_lambdas"}
    rates = [group["lr"] for group in optimizer.param_groups]
    (folder / STATE).write_text(json.dumps({"step": step, "rates": rates, "schedule": schedule}, indent=2) + "\n")


def load_state(folder: Path, pair: AdapterPair, optimizer: Any, scheduler: Any) -> int:
    """Restore what `save_state` wrote and return the step."""
    state = json.loads((folder / STATE).read_text())
    _load_moments(load_file(folder / OPTIMIZER), pair, optimizer)
    for group, rate in zip(optimizer.param_groups, state["rates"], strict=True):
        group["lr"] = rate
    scheduler.load_state_dict(state["schedule"] | {"lr_lambdas": [None] * len(optimizer.param_groups)})
    _load_generators(load_file(folder / RNG))
    return int(state["step"])


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


def _generators() -> dict[str, torch.Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _load_generators(states: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
