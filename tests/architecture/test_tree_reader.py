"""The reader of imports sees what it must see; a test that reads imports is worth no more than its reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import tree


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "src" / "agon"
    (folder / "game").mkdir(parents=True)
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    monkeypatch.setattr(tree, "SOURCE", folder)
    return folder


@pytest.mark.parametrize(
    ("text", "module", "at_import"),
    [
        ("import torch.nn", "torch.nn", True),
        ("from torch import nn", "torch", True),
        ("def f():\n    import torch", "torch", False),
        ("class C:\n    async def f(self):\n        if 1:\n            import torch", "torch", False),
        ("try:\n    import torch\nexcept ImportError:\n    pass", "torch", True),
        ("try:\n    pass\nexcept ImportError:\n    import torch", "torch", True),
        ("match 1:\n    case 1:\n        import torch", "torch", True),
        ("with open('x') as f:\n    import torch", "torch", True),
        ("from ..errors import AgonError", "agon.errors", True),
        ("from . import reward", "agon.game.reward", True),
        ("from agon import errors", "agon.errors", True),
    ],
)
def test_an_import_is_seen_wherever_it_stands(package: Path, text: str, module: str, at_import: bool) -> None:
    (package / "errors.py").touch()
    (package / "game" / "reward.py").touch()
    path = package / "game" / "module.py"
    path.write_text(text)
    assert [(found.module, found.at_import) for found in tree.imports(path)] == [(module, at_import)]


def test_imports_for_type_checkers_do_not_count(package: Path) -> None:
    path = package / "module.py"
    path.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    import json")
    assert [found.module for found in tree.imports(path)] == ["typing", "json"]


def test_within_does_not_mistake_a_prefix_for_a_package() -> None:
    assert tree.within("torch.nn", "torch")
    assert not tree.within("torchvision", "torch")


@pytest.mark.parametrize(
    "text",
    ["import agon\nagon.go()", "from agon import go", "def f():\n    from agon.game.loop import go"],
    ids=["attribute", "lazy name", "home"],
)
def test_a_lazy_name_is_followed_to_its_home(package: Path, text: str) -> None:
    (package / "__init__.py").write_text("if TYPE_CHECKING:\n    from agon.game.loop import go, stop")
    loop = package / "game" / "loop.py"
    loop.touch()
    (package / "other.py").touch()
    path = package / "module.py"
    path.write_text(text)
    assert tree.reachable([path]) - {package / "__init__.py"} == {path, loop}


def test_imports_are_followed_through_evidence_and_tests(package: Path, tmp_path: Path) -> None:
    helper, shared = tmp_path / "evidence" / "_lib.py", tmp_path / "tests" / "game" / "helpers.py"
    for path in (helper, shared):
        path.parent.mkdir(parents=True)
    (package / "errors.py").touch()
    helper.write_text("from tests.game.helpers import x\nimport yaml")
    shared.write_text("def f():\n    from agon import errors")
    script = tmp_path / "evidence" / "script.py"
    script.write_text("from _lib import verdict")
    assert tree.reachable([script]) == {script, helper, shared, package / "errors.py"}
