"""How far apart two exported adapters are, read from their files without torch.

The update of a layer is scale * B A. The cosine of two updates is taken over all layers together, from products of
rank size: <B1 A1, B2 A2> = sum((B1^T B2) * (A1 A2^T)), so that no full matrix is built.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from agon.rundir.pair import SETTINGS, WEIGHTS, check_adapter

Array = np.ndarray[Any, np.dtype[np.float64]]
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def adapter_distance(a: Path, b: Path) -> dict[str, float | None]:
    """Norms of both updates and the cosine between them; no cosine where one of them is zero."""
    one, two = layers(a), layers(b)
    norms = [math.sqrt(max(0.0, inner(side, side))) for side in (one, two)]
    cosine = inner(one, two) / (norms[0] * norms[1]) if all(norms) else None
    return {"norm_a": norms[0], "norm_b": norms[1], "cosine": cosine}


def inner(one: dict[str, tuple[Array, Array]], two: dict[str, tuple[Array, Array]]) -> float:
    """The inner product of two updates over the layers that both have."""
    common = one.keys() & two.keys()
    return float(sum(((one[k][1].T @ two[k][1]) * (one[k][0] @ two[k][0].T)).sum() for k in sorted(common)))


def layers(folder: Path) -> dict[str, tuple[Array, Array]]:
    """Each layer's A and scaled B."""
    check_adapter(folder)
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    rank = settings["r"]
    scale = settings["lora_alpha"] / (math.sqrt(rank) if settings.get("use_rslora") else rank)
    tensors = read_tensors(folder / WEIGHTS)
    names = {name.replace(".lora_A.", ".lora_B."): name for name in tensors if ".lora_A." in name}
    return {down: (tensors[up], scale * tensors[down]) for down, up in names.items() if down in tensors}


def read_tensors(path: Path) -> dict[str, Array]:
    """Every tensor of a safetensors file as float64."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: _tensor(data, start, about) for name, about in header.items()}


def _tensor(data: bytes, start: int, about: dict[str, Any]) -> Array:
    low, high = about["data_offsets"]
    raw = data[start + low : start + high]
    if about["dtype"] == "BF16":  # the upper half of a float32
        wide = np.frombuffer(raw, "<u2").astype("<u4") << 16
        return wide.view("<f4").astype(np.float64).reshape(about["shape"])
    return np.frombuffer(raw, _TYPES[about["dtype"]]).astype(np.float64).reshape(about["shape"])
