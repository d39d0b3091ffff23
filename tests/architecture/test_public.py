"""The public names: importable, typed, and not hidden by a module of the same name."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import agon
import agon_judge
import agon_lens

from .tree import ROOT, SOURCE


@pytest.mark.parametrize("name", agon.__all__)
def test_a_public_name_is_there_and_no_module_hides_it(name: str) -> None:
    assert getattr(agon, name) is not None
    assert not (SOURCE / name).exists(), f"importing agon.{name}.x would replace the public agon.{name}"
    assert not (SOURCE / f"{name}.py").exists(), f"importing agon.{name} would replace the public name"


def test_the_names_for_type_checkers_are_those_for_users() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    named = {
        alias.asname or alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert named == set(agon.__all__)


@pytest.mark.parametrize("name", ["train", "evaluate", "compare", "load_config", "load_verifier", "play"])
def test_a_public_function_is_typed_throughout(name: str) -> None:
    signature = inspect.signature(getattr(agon, name))
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert not bare
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize(
    ("package", "page"), [(agon, "python"), (agon_judge, "python-judge"), (agon_lens, "python-lens")]
)
def test_every_public_name_is_on_the_page_of_its_package(package: ModuleType, page: str) -> None:
    named = re.findall(rf"^::: {package.__name__}\.(\w+)$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(package.__all__)


def test_every_name_in_the_table_of_tasks_is_there_after_import_agon() -> None:
    tasks, _, _ = (ROOT / "docs" / "python.md").read_text().partition("\n## ")
    named = re.findall(r"`(agon\.[a-zA-Z_.]+)`", tasks)
    assert "agon.train" in named
    code = "import agon\n" + "\n".join(name for name in named if name != "agon.__all__")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_paths_may_be_written_as_text(tmp_path: Path) -> None:
    with pytest.raises(agon.AgonError, match="there is no run"):
        agon.RunDir.open(str(tmp_path / "none"))
