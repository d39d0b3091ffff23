"""What the architecture tests look at: the tracked files, and the imports of a module."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "agon"


class Import(NamedTuple):
    """One imported module, where it stands, and whether it runs when the file is imported."""

    place: str
    module: str
    at_import: bool


def modules(folder: str = "") -> list[Path]:
    """The Python files under src/agon/<folder>, or that one file."""
    place = SOURCE / folder
    return [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git knows, and every new one that it would not ignore."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def name_of(path: Path) -> str:
    """`agon.game.reward` for src/agon/game/reward.py; a package without its `__init__`."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file, also those inside functions; those for type checkers only are left out."""
    tree = ast.parse(path.read_text())
    yield from _walk(tree.body, path, at_import=True)


def _walk(body: list[ast.stmt], path: Path, at_import: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield from (Import(place, module, at_import) for module in _named(node, path))
            continue
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, children in ast.iter_fields(node):
            if name == "body" and _for_type_checkers(node):
                continue
            if isinstance(children, list):
                statements = [child for child in children if isinstance(child, ast.stmt)]
                blocks = [child for child in children if isinstance(child, ast.excepthandler | ast.match_case)]
                yield from _walk(statements, path, at_import and not inside)
                for block in blocks:
                    yield from _walk(block.body, path, at_import and not inside)


def _named(node: ast.Import | ast.ImportFrom, path: Path) -> list[str]:
    """The modules that one statement names; `from agon import game` names agon.game."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = name_of(path).split(".")
        kept = package if path.name == "__init__.py" else package[:-1]
        base = ".".join([*kept[: len(kept) - node.level + 1], *([base] if base else [])])
    return [_deepest(base, alias.name) for alias in node.names]


def _deepest(base: str, name: str) -> str:
    place = SOURCE.parent.joinpath(*base.split("."), name)
    return f"{base}.{name}" if place.is_dir() or place.with_suffix(".py").is_file() else base


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def within(module: str, *packages: str) -> bool:
    """Whether a module is one of these packages or stands inside one."""
    return any(module == package or module.startswith(package + ".") for package in packages)
