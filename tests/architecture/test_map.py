"""docs/architecture.md is true: every room is on it, no import climbs its floors, and every name on it exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .tree import ROOT, SOURCE, imports, modules

PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))
FILES = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)[`:]", PAGE)))


def floors() -> dict[str, int]:
    """The floor of every room and top-level file, as drawn."""
    drawing = PAGE.split("<!-- floors:")[1].split("```")[1]
    drawn, floor = {}, 0
    for number, name in re.findall(r"^ {2}([0-9 ]) {2}(\w+(?:\.py|/))", drawing, re.MULTILINE):
        floor = int(number) if number.strip() else floor
        drawn[name.removesuffix("/")] = floor
    return drawn


def test_every_room_is_drawn() -> None:
    there = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__pycache__"}
    assert floors().keys() == there, "draw it in docs/architecture.md, with one line that says what it is"


def test_no_import_climbs_a_floor() -> None:
    drawn, climbing = floors(), []
    for path in modules():
        room = path.relative_to(SOURCE).parts[0]
        for found in imports(path):
            target = found.module.split(".")[1:2]
            floor = drawn.get("".join(target), drawn.get(f"{''.join(target)}.py", 0))
            if found.module.startswith("agon.") and floor > drawn[room]:
                climbing.append(f"{found.place} imports {found.module}")
    assert not climbing, "move what both need to the lower floor, or hand it down as a value:\n" + "\n".join(climbing)


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
