"""What the architecture tests look at: the tracked files, the imports of a module, and what it reaches through them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "agon"


class Import(NamedTuple):
    """One imported module, where it stands, and whether it runs when the file is imported."""

    place: str
    module: str
    at_import: bool


def script(name: str) -> ModuleType:
    """A program of scripts/ as a module, loaded anew and known to Python: dataclasses look names up there."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    sys.modules[loader.name] = module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def modules(folder: str = "") -> list[Path]:
    """The Python files under src/agon/<folder>, or that one file."""
    place = SOURCE / folder
    return [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git knows, and every new one that it would not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def name_of(path: Path) -> str:
    """`agon.game.reward` for src/agon/game/reward.py; a package without its `__init__`."""
    root = next(root for root in _roots() if path.is_relative_to(root))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str) -> Path | None:
    """The file of a module of this repository; None for any other module."""
    for root in _roots():
        place = root.joinpath(*module.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


def _roots() -> tuple[Path, ...]:
    """Where modules are imported from: the packages, the evidence scripts and their helpers, the tests."""
    return SOURCE.parent, *sorted((ROOT / "packages").glob("*/src")), ROOT / "evidence", ROOT


def neighbours(path: Path) -> frozenset[Path]:
    """The files of this repository that a file imports, also inside functions."""
    return _neighbours(path, path.read_text())


@cache
def _neighbours(path: Path, text: str) -> frozenset[Path]:
    named = {found.module for found in imports(path)}
    if "agon" in named:  # `import agon`, then `agon.train(...)`
        used = {ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
        named |= {module for name, module in exports().items() if f"agon.{name}" in used}
    return frozenset(file for module in named if (file := file_of(module)))


def reachable(paths: Iterable[Path]) -> set[Path]:
    """These files and all that they import, directly or through others."""
    seen, waiting = set[Path](), set(paths)
    while waiting:
        path = waiting.pop()
        seen.add(path)
        waiting |= neighbours(path) - seen
    return seen


def imports(path: Path) -> tuple[Import, ...]:
    """Every import of a file, also those inside functions; those for type checkers only are left out."""
    return _imports(path, path.read_text())


@cache
def _imports(path: Path, text: str) -> tuple[Import, ...]:
    return tuple(_walk(ast.parse(text).body, path, at_import=True))


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
    return [_home(base, alias.name) for alias in node.names]


def _home(base: str, name: str) -> str:
    """The module that `from base import name` needs: a submodule, the home of a lazy name, or else `base`."""
    if file_of(f"{base}.{name}"):
        return f"{base}.{name}"
    return exports()[name] if base == "agon" and name in exports() else base


def exports() -> dict[str, str]:
    """The public names of `agon` and the module of each; they are imported when they are first used."""
    blocks = [node for node in ast.parse((SOURCE / "__init__.py").read_text()).body if _for_type_checkers(node)]
    lines = [line for block in blocks for line in ast.walk(block) if isinstance(line, ast.ImportFrom)]
    return {alias.name: line.module or "" for line in lines for alias in line.names}


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def within(module: str, *packages: str) -> bool:
    """Whether a module is one of these packages or stands inside one."""
    return any(module == package or module.startswith(package + ".") for package in packages)
