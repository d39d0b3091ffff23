"""The rules of the package that can be counted: one word for one thing, no import circle, small parts, typed seams.

A check returns its violations, one sentence each that says what to change. `test_checks.py` runs CHECKS as tests,
`evidence/one_word.py` prints what they count.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import tree
from .tree import exports, file_of, graph, modules, name_of

ENTRIES, ANY_DICTS, FILE_LINES, FUNCTION_LINES = 24, 110, 400, 45
NOT_ENTRIES = {"recipes", "assets", "py.typed", "__pycache__"}
"""Data folders and markers: what `ls src/agon` shows besides the architecture."""
STDLIB_NAMES = {
    "types": "the nouns of the game; imported as agon.types only",
    "math": "a folder, verify/math, whose modules say what they are",
    "code": "a folder, verify/code, likewise",
}
"""Names of the standard library that a module may have, with the reason."""
REPEATED_MODULES = {
    "run": ({"training", "eval"}, "the Python entry point of its room"),
    "results": ({"eval", "rundir"}, "what `evaluate` returns, and what stands on disk"),
    "read": ({"config", "diagnose"}, "reads what its room works on: a config, a log"),
    "rules": ({"config", "game"}, "the rules between config fields, and those of the game"),
    "local": ({"data", "engine/vllm", "matrix"}, "its room on this machine: files, an engine, processes"),
    "on_nodes": ({"verify", "matrix"}, "its room on the nodes of a cluster: actors that judge, tasks that train"),
    "checkpoint": ({"engine/tiny", "rundir"}, "the weights that ship, and those that a run saves"),
}
"""Module names that several folders may use, with the reason; a command, cli/NAME.py, may share its library's name."""


class Part(NamedTuple):
    """A file or function and its length."""

    name: str
    lines: int


def repeated_classes() -> list[str]:
    """Public class names that are defined twice."""
    homes = defaultdict[str, list[str]](list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(f"{_place(path)}:{node.lineno}")
    return [f"class {name}: rename one of {', '.join(places)}" for name, places in homes.items() if len(places) > 1]


def repeated_modules() -> list[str]:
    """Module names that stand for two things without a reason."""
    folders = defaultdict[str, set[str]](set)
    for path in modules():
        module = path.parent if path.name == "__init__.py" else path
        if module != tree.SOURCE:
            folders[module.stem].add(_place(module.parent))
    return [
        f"module {name}: rename one of {', '.join(f'{place}/{name}'.lstrip('/') for place in sorted(places))}, "
        "or allow it with a reason in tests/architecture/checks.py"
        for name, places in folders.items()
        if not _may_repeat(name, places - {"cli"})
    ]


def _may_repeat(name: str, folders: set[str]) -> bool:
    return len(folders) < 2 or folders <= REPEATED_MODULES.get(name, (set(), ""))[0]


def shadowed_modules() -> list[str]:
    """Modules named like one of the standard library."""
    named = {path.parent if path.name == "__init__.py" else path for path in modules()}
    shadows = [path for path in sorted(named) if path.stem in sys.stdlib_module_names and path.stem not in STDLIB_NAMES]
    return [f"{_place(path)} shadows `{path.stem}` of the standard library: rename it" for path in shadows]


def circles() -> list[str]:
    """Groups of modules that import each other, also through others or inside functions."""
    arrows = graph()
    reach = {path: _reach(path, arrows) for path in arrows}
    groups = {frozenset(other for other in reach[path] if path in reach[other]) for path in arrows}
    return [
        f"import circle of {', '.join(sorted(map(name_of, group)))}: move what both need into a third module"
        for group in groups
        if group
    ]


def _reach(path: Path, arrows: dict[Path, frozenset[Path]]) -> set[Path]:
    """What a module imports, directly or through others; itself only on a circle."""
    seen, waiting = set[Path](), set(arrows[path])
    while waiting:
        seen.add(found := waiting.pop())
        waiting |= arrows[found] - seen
    return seen


def entries() -> list[str]:
    """What `ls src/agon` shows of the architecture."""
    return sorted(path.name for path in tree.SOURCE.iterdir() if path.name not in NOT_ENTRIES)


def too_many_entries() -> list[str]:
    """One sentence when src/agon has too many entries."""
    names = entries()
    return [f"src/agon has {len(names)} entries, at most {ENTRIES}: {', '.join(names)}"] if len(names) > ENTRIES else []


def any_dicts() -> list[str]:
    """Every `dict[str, Any]` and `Mapping[str, Any]` of the package."""
    return [
        f"{_place(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.expr) and is_any_dict(node)
    ]


def is_any_dict(node: ast.AST) -> bool:
    """Whether a piece of code is the type of a dictionary whose values could be anything."""
    if not isinstance(node, ast.Subscript) or ast.unparse(node.slice) != "(str, Any)":
        return False
    return ast.unparse(node.value) in {"dict", "Mapping"}


def too_many_any_dicts() -> list[str]:
    """One sentence when too many dictionaries have no type."""
    places = any_dicts()
    most = Counter(place.rpartition(":")[0] for place in places).most_common(5)
    named = ", ".join(f"{name} {count}" for name, count in most)
    over = f"{len(places)} of `dict[str, Any]`, at most {ANY_DICTS}: define records; most are in {named}"
    return [over] if len(places) > ANY_DICTS else []


def any_dicts_in_public_signatures() -> list[str]:
    """Signatures of the names in `agon.__all__`, and of the public members of their classes, with such a dictionary.

    A signature is the annotations of parameters and of the return value; for a class also those of its fields.
    """
    found = [
        f"agon.{label}: replace `{ast.unparse(part)}` by a record"
        for name, home in exports().items()
        for label, annotation in _signatures(definition(home, name))
        for part in ast.walk(annotation)
        if is_any_dict(part)
    ]
    return list(dict.fromkeys(found))


def definition(module: str, name: str) -> ast.stmt:
    """The statement that defines a name, followed through the packages that re-export it."""
    path = file_of(module)
    assert path is not None, f"agon.__init__ names {module}, which does not exist"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return node
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return definition(str(node.module), name)
    raise AssertionError(f"agon.__init__ names {module}.{name}, which does not exist")


def _signatures(node: ast.stmt, prefix: str = "") -> Iterator[tuple[str, ast.expr]]:
    """(name, annotation) of everything that a caller sees."""
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            yield from _signatures(member, f"{node.name}.")
    elif isinstance(node, ast.AnnAssign) and _public(ast.unparse(node.target)):
        yield f"{prefix}{ast.unparse(node.target)}", node.annotation
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _public(node.name):
        parameters = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
        yield from ((f"{prefix}{node.name}", part) for part in (*parameters, node.returns) if part is not None)


def _public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def files(paths: list[Path]) -> list[Part]:
    """Files by their lines."""
    return [Part(str(path.relative_to(tree.ROOT)), len(path.read_text().splitlines())) for path in paths]


def functions(paths: list[Path]) -> list[Part]:
    """Functions by their lines, decorators not counted."""
    return [
        Part(f"{path.relative_to(tree.ROOT)}:{node.lineno} {node.name}", 1 + (node.end_lineno or 0) - node.lineno)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def too_long(parts: list[Part], limit: int) -> list[str]:
    """Parts over a limit."""
    return [f"{part.name} has {part.lines} lines, at most {limit}" for part in parts if part.lines > limit]


def long_files() -> list[str]:
    """Files of the package that should be split by what they do."""
    return too_long(files(modules()), FILE_LINES)


def long_functions() -> list[str]:
    """Functions of the package with a part that wants a name of its own."""
    return too_long(functions(modules()), FUNCTION_LINES)


def _place(path: Path) -> str:
    """A path inside src/agon; the package itself is the empty string."""
    place = path.relative_to(tree.SOURCE).as_posix()
    return "" if place == "." else place


CHECKS = {
    "repeated classes": repeated_classes,
    "repeated modules": repeated_modules,
    "shadowed modules": shadowed_modules,
    "import circles": circles,
    "entries": too_many_entries,
    "untyped dictionaries": too_many_any_dicts,
    "untyped public signatures": any_dicts_in_public_signatures,
    "long files": long_files,
    "long functions": long_functions,
}
