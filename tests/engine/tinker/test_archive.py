"""Weights from a service, as a stranger could have made them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from agon.engine.tinker.archive import alpha_of, tensors_of, write_adapter
from agon.errors import EngineError
from agon.rundir.adapter import check_adapter

TENSORS = {
    "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": np.ones((4, 8), "f4"),
    "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": np.zeros((8, 4), "f4"),
    "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight": np.full((4, 8), 0.5, "f2"),
}
SETTINGS = {"r": 4, "lora_alpha": 32.0, "target_modules": None, "peft_type": "LORA"}


def packed(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"some/folder/{name.replace('__', '.')}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def archive(tensors: bytes | None = None, settings: bytes | None = None) -> bytes:
    return packed(
        adapter_model__safetensors=tensors if tensors is not None else save(TENSORS),
        adapter_config__json=settings if settings is not None else json.dumps(SETTINGS).encode(),
        other__py=b"raise SystemExit",
    )


def test_an_archive_becomes_a_plain_adapter_that_names_its_layers(tmp_path: Path) -> None:
    write_adapter(archive(), tmp_path / "a", "some/base")
    settings = check_adapter(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert (settings.r, settings.lora_alpha) == (4, 32.0)
    assert settings.target_modules == ("q_proj", "up_proj")
    assert settings.base_model_name_or_path == "some/base"


def test_tensors_are_read_in_every_precision() -> None:
    values = np.array([1.0, -2.5, 0.15625], "f4")
    header = {"t": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + (values.view("<u4") >> 16).astype("<u2").tobytes()
    assert tensors_of(archive(data))["t"].tolist() == values.tolist()
    read = tensors_of(archive())
    assert {name: tensor.tolist() for name, tensor in read.items()} == {n: t.tolist() for n, t in TENSORS.items()}
    assert alpha_of(archive()) == 32.0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not a tar", "not a LoRA adapter"),
        (packed(adapter_config__json=b"{}"), "it has no adapter_model.safetensors"),
        (archive(settings=b'{"r": 4}'), "lora_alpha"),
        (archive(tensors=(5).to_bytes(8, "little") + b"{bad}"), "adapter_model.safetensors"),
    ],
    ids=["no archive", "no weights", "no alpha", "no header"],
)
def test_what_is_not_an_adapter_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(EngineError, match=reason):
        write_adapter(data, tmp_path / "a", "base")
