"""Names of other libraries that are not public: each is where `compat.py` says, and used nowhere else.

Runs weekly on the newest transformers 5.x too (evidence/newest_transformers.py).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agon.engine
from agon.engine.vllm import compat as vllm_compat

ENGINE = Path(agon.engine.__file__).parent
LIBRARIES = ("trl", "transformers", "peft", "accelerate", "vllm")
PUBLIC = {"accelerate.utils"}
"""Modules below the top of a library that its documentation names."""


def reaches(file: Path) -> Iterator[str]:
    """What a file takes from inside of a library, or by a name that begins with an underscore."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in LIBRARIES:
            if "." in node.module and node.module not in PUBLIC:
                yield f"{file.name}:{node.lineno} {node.module}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                inside = "." in alias.name and alias.name not in PUBLIC
                if inside and alias.name.split(".")[0] in LIBRARIES:
                    yield f"{file.name}:{node.lineno} {alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            text = ast.unparse(node.value)
            if text.split(".")[0] in (*LIBRARIES, "torch"):
                yield f"{file.name}:{node.lineno} {text}.{node.attr}"


@pytest.mark.parametrize("backend", ["trl", "vllm"])
def test_only_compat_reaches_inside_of_a_library(backend: str) -> None:
    files = [file for file in (ENGINE / backend).glob("*.py") if file.name != "compat.py"]
    assert [found for file in files for found in reaches(file)] == []
    assert list(reaches(ENGINE / backend / "compat.py")) or backend == "vllm", "else this test sees nothing"


@pytest.mark.parametrize("name", list(vllm_compat.NAMES))
def test_vllm_has_the_name(name: str) -> None:
    pytest.importorskip("vllm")
    found = getattr(vllm_compat, name)
    missing = [used for used in vllm_compat.ATTRIBUTES.get(name, "").split() if not hasattr(found, used)]
    assert not missing


def test_vllm_s_managers_hold_what_an_attestation_reads() -> None:
    pytest.importorskip("vllm")
    workers, manager = vllm_compat.LRUCacheWorkerLoRAManager, vllm_compat.LRUCacheLoRAModelManager
    assert "self._adapter_manager" in "".join(map(inspect.getsource, workers.__mro__[:-1]))
    text = "".join(inspect.getsource(part) for part in manager.__mro__ if part.__module__ == manager.__module__)
    assert "self.lora_index_to_id" in text
    assert "self.modules" in text


def test_another_name_of_vllm_is_refused() -> None:
    with pytest.raises(AttributeError, match="not a name of vLLM"):
        vllm_compat.LLM  # noqa: B018


def test_trl_has_the_hooks() -> None:
    from agon.engine.trl.compat import HOOKS, GRPOTrainer, no_dataset

    text = "".join(inspect.getsource(part) for part in GRPOTrainer.__mro__ if part is not object)
    missing = [name for name in HOOKS if not hasattr(GRPOTrainer, name) and f"self.{name} =" not in text]
    assert not missing
    assert len(no_dataset()) == 1


def test_the_trainer_overrides_or_sets_what_compat_says() -> None:
    from agon.engine.trl import trainer
    from agon.engine.trl.compat import HOOKS, GRPOTrainer

    ours: Any = trainer.PairTrainer
    private = {name for name in vars(ours) if name.startswith("_") and not name.startswith("__")}
    overridden = {name for name in private if hasattr(GRPOTrainer, name)}
    assert overridden <= HOOKS.keys()
    text = inspect.getsource(ours)
    assert all(name in text or name == "_compute_loss" for name in HOOKS)


def test_transformers_and_torch_have_the_rest() -> None:
    import torch

    from agon.engine.trl import compat

    assert {"attention_mask", "dropout", "scaling"} <= inspect.signature(
        compat.sdpa_attention_forward
    ).parameters.keys()
    assert "attention_mask" in inspect.signature(compat.sdpa_mask).parameters
    assert isinstance(compat.is_flash_attn_2_available(), bool)
    assert callable(torch.cuda.memory._set_allocator_settings)


def test_a_base_is_split_by_its_layers_alone() -> None:
    """transformers would split the output head too, whose weight TRL uses without calling it."""
    import torch

    from agon.engine.trl.compat import split_by_layers
    from tests.engine.helpers.bases import random_base

    base = random_base()
    assert "lm_head" in base.fsdp_plan
    assert list(split_by_layers(type(base))(base.config).fsdp_plan) == ["model.layers.*"]
    assert callable(torch.distributed.distributed_c10d._abort_process_group)
