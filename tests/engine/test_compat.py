"""Names of other libraries that are not public: each is where `compat.py` says, and used nowhere else.

Runs weekly on the newest transformers 5.x too (evidence/newest_transformers.py).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

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


def test_only_compat_reaches_inside_of_vllm() -> None:
    files = [file for file in (ENGINE / "vllm").glob("*.py") if file.name != "compat.py"]
    assert [found for file in files for found in reaches(file)] == []


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
