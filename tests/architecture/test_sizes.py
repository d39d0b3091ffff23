"""Sizes: a file or a function that grows past these is a sign to look again."""

from __future__ import annotations

import ast
from pathlib import Path

from .tree import ROOT, SOURCE, modules, tracked

ALGORITHM_LINES = 100
FILE_LINES = 450
FUNCTION_LINES = 60


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def functions(path: Path) -> list[tuple[str, int]]:
    """Each function of a file as (place, lines), its decorators not counted."""
    found = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [(f"{path.relative_to(ROOT)}:{n.lineno} {n.name}", (n.end_lineno or n.lineno) - n.lineno + 1) for n in found]


def test_the_algorithm_fits_one_page() -> None:
    lines = line_count(SOURCE / "algorithm.py")
    assert lines <= ALGORITHM_LINES, (
        f"algorithm.py has {lines} lines; a reader holds it beside Algorithm 1 (at most 100)"
    )


def test_no_file_is_too_long() -> None:
    long = [
        f"{path.relative_to(ROOT)} has {line_count(path)} lines"
        for path in python_files()
        if line_count(path) > FILE_LINES
    ]
    assert not long, f"split by what it does (at most {FILE_LINES} lines):\n" + "\n".join(long)


def test_no_function_is_too_long() -> None:
    long = [
        f"{place} has {lines} lines"
        for path in python_files()
        for place, lines in functions(path)
        if lines > FUNCTION_LINES
    ]
    assert not long, f"name a part of it and take it out (at most {FUNCTION_LINES} lines):\n" + "\n".join(long)


def test_every_module_says_what_it_is() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, "a module docstring says what the file is, then where it departs from the paper:\n" + "\n".join(
        silent
    )
