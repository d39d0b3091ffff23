"""The weights that a Tinker service hands out: a tar.gz, read here and written as a plain PEFT directory."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from agon.errors import EngineError
from agon.rundir.adapter import SETTINGS, WEIGHTS

LARGEST = 1 << 36
"""Bytes of one file in an archive."""
ROUNDING = 2.0**-8
"""How much of a number is lost in bfloat16."""
KINDS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""How numbers of a safetensors file are read."""


def read_archive(archive: bytes) -> dict[str, bytes]:
    """The two files of an adapter, wherever in the archive they are; nothing else is read, and nothing is unpacked."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if member.isfile() and name in (SETTINGS, WEIGHTS) and member.size <= LARGEST:
                    file = tar.extractfile(member)
                    files[name] = file.read() if file else b""
    except (tarfile.TarError, OSError, EOFError) as error:
        raise _unusable(str(error)) from error
    if missing := {SETTINGS, WEIGHTS} - files.keys():
        raise _unusable(f"it has no {', '.join(sorted(missing))}")
    return files


def write_adapter(archive: bytes, folder: Path, base: str) -> None:
    """Write a plain PEFT directory. Servers leave out which layers carry an adapter: the tensors' names say it."""
    files = read_archive(archive)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).write_bytes(files[WEIGHTS])
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": _settings(files)["r"],
        "lora_alpha": alpha_of(archive),
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.rsplit(".lora_", 1)[0].rsplit(".", 1)[-1] for name in tensors_of(archive)}),
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")


def alpha_of(archive: bytes) -> float:
    """The alpha that the service scales an adapter by."""
    return float(_settings(read_archive(archive))["lora_alpha"])


def tensors_of(archive: bytes) -> dict[str, Any]:
    """The adapter's tensors as NumPy arrays in float32; NumPy has no bfloat16, in which some servers hold them."""
    return _tensors(read_archive(archive)[WEIGHTS])


def same_weights(archive: bytes, folder: Path) -> bool:
    """Whether an archive holds the adapter that `write_adapter` wrote; a service may have rounded it to bfloat16."""
    import numpy

    now, then = tensors_of(archive), _tensors((folder / WEIGHTS).read_bytes())
    return {name: t.shape for name, t in now.items()} == {name: t.shape for name, t in then.items()} and all(
        numpy.allclose(now[name], then[name], rtol=ROUNDING, atol=0.0) for name in then
    )


def _tensors(data: bytes) -> dict[str, Any]:
    import numpy

    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    try:
        header = json.loads(data[8:start])
        for name in sorted(header.keys() - {"__metadata__"}):
            begin, end = header[name]["data_offsets"]
            kind, raw = header[name]["dtype"], data[start + begin : start + end]
            values = numpy.frombuffer(raw, KINDS[kind])
            if kind == "BF16":
                values = (values.astype("<u4") << 16).view("<f4")
            tensors[name] = values.astype("<f4").reshape(header[name]["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(f"{WEIGHTS}: {error!r}") from error
    return tensors


def _settings(files: dict[str, bytes]) -> dict[str, Any]:
    try:
        settings = json.loads(files[SETTINGS])
        return {"r": int(settings["r"]), "lora_alpha": float(settings["lora_alpha"])}
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(f"{SETTINGS}: {error!r}") from error


def _unusable(reason: str) -> EngineError:
    return EngineError(f"the service handed out weights that are not a LoRA adapter: {reason}", fix="update the server")
