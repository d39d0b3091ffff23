"""An adapter of a stranger: plain numbers, and settings from a list of what is allowed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from agon.errors import RunDirError
from agon.rundir.adapter import LARGEST, SETTINGS, WEIGHTS, check_adapter
from tests.rundir.helpers import runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return runs.write_adapter(tmp_path / "a", [1.0])


def say(folder: Path, **settings: Any) -> None:
    (folder / SETTINGS).write_text(json.dumps({"peft_type": "LORA", "r": 2, **settings}))


def test_what_peft_and_the_learner_write_is_accepted(folder: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs PEFT's own settings")
    config = peft.LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    written = {key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()}
    say(folder, **written)
    assert check_adapter(folder).r == 4
    mapping = {"base_model_class": "X", "parent_library": "transformers.models.x"}
    say(folder, **written | {"task_type": None, "auto_mapping": mapping, "init_lora_weights": False})
    assert check_adapter(folder).lora_alpha == 32


STRANGE: dict[str, dict[str, Any]] = {
    "an initialisation that rewrites the base": {"init_lora_weights": "pissa"},
    "another": {"init_lora_weights": "olora"},
    "and its config": {"corda_config": {"corda_method": "kpm"}},
    "a quantised base": {"loftq_config": {"loftq_bits": 4}},
    "whole modules": {"modules_to_save": ["lm_head"]},
    "trained tokens": {"trainable_token_indices": [1]},
    "biases of the base": {"bias": "all"},
    "biases of its own": {"lora_bias": True},
    "another decomposition": {"use_dora": True},
    "layers that are repeated": {"layer_replication": [[0, 4], [2, 5]]},
    "a pattern without end": {"target_modules": "((([a-z_.0-9])*)*)*X"},
    "a pattern in a list": {"target_modules": ["q_proj", "(a*)*b"]},
    "a pattern of ranks": {"rank_pattern": {"(([a-z_.0-9])*)*X": 4}},
    "a pattern of layers": {"layers_pattern": "(a*)*b"},
    "parameters": {"target_parameters": ["x"]},
    "a rank that is a text": {"r": "x"},
    "no rank": {"r": 0},
    "a rank without measure": {"r": 10**9},
    "a rank that is true": {"r": True},
    "a scale that is a text": {"lora_alpha": "x"},
    "a scale without measure": {"lora_alpha": 1e300},
    "a scale that is not a number": {"lora_alpha": float("nan")},
    "a module to import": {"auto_mapping": {"base_model_class": "X", "parent_library": "transformersevil"}},
    "a key of the future": {"run_this": "rm"},
}


@pytest.mark.parametrize("name", STRANGE)
def test_settings_beyond_plain_lora_are_refused_by_name(name: str, folder: Path) -> None:
    say(folder, **STRANGE[name])
    with pytest.raises(RunDirError, match=next(iter(STRANGE[name]))) as refused:
        check_adapter(folder)
    assert refused.value.fix


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"[" * 99_999, b'{"peft_type": "LORA", "lora_alpha": 1e400}', b" " * (LARGEST + 1)]
)
def test_settings_that_are_no_settings_are_refused(text: bytes, folder: Path) -> None:
    (folder / SETTINGS).write_bytes(text)
    with pytest.raises(RunDirError, match="not a LoRA adapter"):
        check_adapter(folder)


def header(tensors: Any, data: bytes = b"") -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(*offsets: Any, shape: Any = (2,), dtype: str = "F32") -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_that_fill_the_file_are_accepted(folder: Path) -> None:
    two = {"x": tensor(8, 12, shape=[2, 1], dtype="BF16"), "y": tensor(0, 8), "__metadata__": {"format": "pt"}}
    (folder / WEIGHTS).write_bytes(header(two, bytes(12)))
    check_adapter(folder)


BROKEN = {
    "empty": b"",
    "no header": b"\x00" * 8,
    "a header without end": struct.pack("<Q", 2**63) + b"{}",
    "too short": header({"x": tensor(0, 8)}, bytes(4)),
    "too long": header({"x": tensor(0, 8)}, bytes(12)),
    "a gap": header({"x": tensor(4, 12)}, bytes(12)),
    "an overlap": header({"x": tensor(0, 8), "y": tensor(4, 12)}, bytes(12)),
    "backwards": header({"x": tensor(8, 0)}, bytes(8)),
    "no fields": header({"x": {}}),
    "offsets as texts": header({"x": tensor("0", "8")}, bytes(8)),
    "offsets as fractions": header({"x": tensor(0.0, 8.0)}, bytes(8)),
    "a shape that lies": header({"x": tensor(0, 8, shape=[3])}, bytes(8)),
    "a shape below zero": header({"x": tensor(0, 8, shape=[-2, -1])}, bytes(8)),
    "a type that holds no fractions": header({"x": tensor(0, 8, dtype="I32")}, bytes(8)),
    "a list": header([]),
    "nothing but brackets": struct.pack("<Q", 99_999) + b"[" * 99_999,
}


@pytest.mark.parametrize("name", BROKEN)
def test_weights_that_are_not_plain_tensors_are_refused(name: str, folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(BROKEN[name])
    with pytest.raises(RunDirError, match="not a LoRA adapter"):
        check_adapter(folder)
