"""docs/architecture.md is true: every name on it exists; its map is drawn from pyproject.toml."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .tree import ROOT, SOURCE

PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))
FILES = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)[`:]", PAGE)))


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a module or a class defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def exists(file: str, name: str) -> bool:
    body = ast.parse((SOURCE / file).read_text()).body
    for part in name.split("."):
        node = defined(body).get(part)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


def test_every_file_on_the_page_exists() -> None:
    assert not [file for file in FILES if not (SOURCE / file).is_file() and not (ROOT / file).is_file()]


def test_every_name_on_the_page_exists() -> None:
    assert len(NAMED) > 50
    assert not [f"{file}:{name}" for file, name in NAMED if not exists(file, name)]


def test_every_test_on_the_page_exists() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert not [name for name in named if f"def {name}(" not in tests]


def test_a_name_that_is_gone_is_missed() -> None:
    assert exists("types.py", "Policy.rival")
    assert not exists("types.py", "Policy.nemesis")
