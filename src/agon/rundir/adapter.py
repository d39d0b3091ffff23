"""A LoRA adapter on disk, which may come from a stranger: two plain files that hold settings and numbers.

PEFT does much more than LoRA when its settings say so: it initialises by rewriting the base, trains whole modules, or
matches names by a regular expression. What is not on the list below, and not empty, is refused.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agon.errors import RunDirError
from agon.rundir.files import check_plain

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
LARGEST = 1 << 20
"""Bytes of settings."""
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a number."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+$")]
Offset = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _Mapping(_Strict):
    """The class of the base; PEFT may import its module."""

    base_model_class: str | None = None
    parent_library: Annotated[str, StringConstraints(pattern=r"^transformers(\.|$)")] | None = None


class AdapterSettings(_Strict):
    """What an adapter's settings may say. Any other key must be empty."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")

    peft_type: Literal["LORA"]
    task_type: Literal["CAUSAL_LM"] | None = None
    auto_mapping: _Mapping | None = None
    peft_version: str | None = None
    base_model_name_or_path: str | None = None
    revision: str | None = None
    inference_mode: bool = True
    r: Annotated[int, Field(ge=1, le=1024)] = 8
    lora_alpha: Annotated[float, Field(ge=0, le=1e6)] = 8
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    target_modules: tuple[Name, ...] | Name | None = None
    exclude_modules: tuple[Name, ...] | None = None
    layers_to_transform: tuple[Offset, ...] | None = None
    bias: Literal["none"] = "none"
    init_lora_weights: bool | None = None
    use_rslora: bool = False
    megatron_core: str | None = None
    """Read with `megatron_config` only, which must be empty."""
    qalora_group_size: int | None = None
    """Read with `use_qalora` only, which must be false."""


class _Tensor(_Strict):
    dtype: Literal["F64", "F32", "F16", "BF16"]
    shape: tuple[Offset, ...]
    data_offsets: tuple[Offset, Offset]


class _Header(_Strict):
    """Tensors by name."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, _Tensor]
    metadata: dict[str, str] | None = Field(None, alias="__metadata__")


def plain_file(folder: Path, name: str) -> Path:
    """A file in `folder`; a link could lead anywhere."""
    path = folder / name
    if path.is_symlink() or folder.is_symlink():
        raise RunDirError(f"{path} is a link", fix="copy the files themselves: cp -rL")
    check_plain(path)
    return path


def check_adapter(folder: Path) -> AdapterSettings:
    """Refuse an adapter that is not a plain LoRA directory with safetensors weights; return its settings."""
    weights, settings = plain_file(folder, WEIGHTS), plain_file(folder, SETTINGS)
    if not weights.is_file() or not settings.is_file():
        found = sorted(path.name for path in folder.glob("adapter_model*"))
        have = f" (found {', '.join(found)}, which may run code when loaded)" if found and not weights.is_file() else ""
        fix = "save the adapter again with save_pretrained(..., safe_serialization=True)"
        raise RunDirError(f"{folder} needs {SETTINGS} and {WEIGHTS}{have}", fix=fix)
    try:
        _check_safetensors(weights)
        return _read_settings(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {str(first['input'])[:80]!r}"
    except (ValueError, AttributeError, RecursionError) as error:
        reason = str(error)
    raise RunDirError(f"{folder} is not a LoRA adapter: {reason}", fix="save a plain LoRA adapter with PEFT")


def _read_settings(path: Path) -> AdapterSettings:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{SETTINGS} is larger than {LARGEST} bytes")
    settings = AdapterSettings.model_validate_json(path.read_bytes())
    if strange := sorted(key for key, value in (settings.model_extra or {}).items() if value):
        raise ValueError(f"{SETTINGS} sets {strange[0]}, which is more than a plain LoRA adapter needs")
    return settings


def _check_safetensors(path: Path) -> None:
    """The header's tensors lie within the file and fill it: then the file holds numbers and nothing else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, 100_000_000):
            raise ValueError(f"{path.name} has no safetensors header")
        header = _Header.model_validate_json(file.read(length))
    end = 0
    for tensor in sorted((header.model_extra or {}).values(), key=lambda tensor: tensor.data_offsets):
        start, stop = tensor.data_offsets
        if start != end or stop - start != prod(tensor.shape) * SIZES[tensor.dtype]:
            raise ValueError(f"{path.name} has tensors that overlap, leave gaps or are not of their shape")
        end = stop
    if end != size - 8 - length:
        raise ValueError(f"{path.name} holds {size - 8 - length} bytes of tensors, its header says {end}")
