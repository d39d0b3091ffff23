"""A base in 4 bits: quantised once, and kept in the cache as two checkpoints of the same weights.

`nf4` holds codes and scales (bitsandbytes), which the learner loads. `plain` holds the same weights dequantised: what
anything reads that knows no 4 bits, such as engines, evaluation and export. NF4 has 16 values and one float32 scale per
64 weights. Linear layers are quantised; embeddings, the output head and norms stay as they are.

The name of the folder carries a digest of the base, the dtype and the settings, so a different base never gets it.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from agon.config import Model
from agon.engine.base_config import published_files, read_base_config, revision_of
from agon.engine.dtypes import learner_dtype
from agon.engine.safe_load import load_model
from agon.errors import ConfigError, need
from agon.rundir import files

NF4, PLAIN = "nf4", "plain"
SETTINGS = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False}


def quantised_files(model: Model) -> Path:
    """The folder with both checkpoints; made by the first process that asks, while others wait."""
    from filelock import FileLock
    from huggingface_hub import constants

    published = model.model_copy(update={"quantize": "none"})
    source, dtype = published_files(published), learner_dtype(model.dtype)
    identity = {"base": _identity(published, source), "dtype": dtype, **SETTINGS}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    short = model.name.rstrip("/").rpartition("/")[2].replace(":", "-")
    folder = Path(constants.HF_HOME, "agon", f"{short}-nf4-{digest[:16]}")
    if not folder.is_dir():
        _check(model)
        with files.disk_errors_as(f"{folder} was not written"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / "lock"):
                files.clean_up(folder.parent)  # of a process that died while it wrote
                if not folder.is_dir():
                    _write(folder, source, dtype)
    return folder


def load_nf4(model: Model) -> Any:
    """The base in 4 bits, for the learner."""
    from bitsandbytes.nn import Linear4bit

    base = load_model(str(quantised_files(model) / NF4), learner_dtype(model.dtype), device_map={"": "cpu"})
    for module in base.modules():
        if isinstance(module, Linear4bit):
            # on some CPUs the first pass without gradients would round the scales to bfloat16, for good
            module.support_avx512bf16_for_cpu = False
    return base


def _write(folder: Path, source: str, dtype: str) -> None:
    import torch
    from transformers import AutoTokenizer, BitsAndBytesConfig

    exact = getattr(torch, dtype)
    settings = BitsAndBytesConfig(**SETTINGS, bnb_4bit_compute_dtype=exact)
    # on a CPU: every machine then gets the same codes, whatever its GPU
    base = load_model(source, exact, quantization_config=settings, device_map={"": "cpu"})
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    with files.temporary_folder(folder.with_name(f"{files.TEMPORARY}{folder.name}-{os.getpid()}")) as temporary:
        base.save_pretrained(temporary / NF4)
        base.dequantize(exact).save_pretrained(temporary / PLAIN)
        for form in (NF4, PLAIN):
            tokenizer.save_pretrained(temporary / form)
        files.sync_tree(temporary)
        temporary.rename(folder)


def _check(model: Model) -> None:
    need("bitsandbytes")
    published = read_base_config(model)
    composite = "text_config" in published or str(published.get("model_type")).endswith("_text")
    if composite or "quantization_config" in published:
        kind = "a composite checkpoint" if composite else "quantised already"
        raise ConfigError(
            f"model.quantize nf4 is for a text model in 16 or 32 bits, and {model.name} is {kind}",
            fix="leave out model.quantize, or name a different base",
        )


def _identity(model: Model, source: str) -> str:
    """A hash of the weights in a folder, or a name on the Hub with its commit."""
    return _hash(source) if Path(source).is_dir() else f"{model.name}@{revision_of(model)}"


@cache
def _hash(folder: str) -> str:
    return files.weights_hash(Path(folder)) or folder
