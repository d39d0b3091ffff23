"""Sizes around the package: a file or a function that grows past these is a sign to look again."""

from __future__ import annotations

import ast
from pathlib import Path

from .checks import Part, files, functions, too_long
from .tree import ROOT, SOURCE, modules, tracked

ALGORITHM_LINES = 100
FILE_LINES, FUNCTION_LINES = 450, 60
"""Limits for tests and evidence, where a list of cases may be long; those of the package are in checks.py."""


def other_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and not path.is_relative_to(SOURCE)]


def test_the_algorithm_fits_one_page() -> None:
    (page,) = files([SOURCE / "algorithm.py"])
    assert page.lines <= ALGORITHM_LINES, (
        f"algorithm.py has {page.lines} lines; a reader holds it beside Algorithm 1 (at most {ALGORITHM_LINES})"
    )


def test_no_file_is_too_long() -> None:
    long = too_long(files(other_files()), FILE_LINES)
    assert not long, "split by what it does:\n" + "\n".join(long)


def test_no_function_is_too_long() -> None:
    long = too_long(functions(other_files()), FUNCTION_LINES)
    assert not long, "name a part of it and take it out:\n" + "\n".join(long)


def test_a_part_is_too_long_only_past_the_limit() -> None:
    assert too_long([Part("a", 45), Part("b", 46)], 45) == ["b has 46 lines, at most 45"]


def test_every_module_says_what_it_is() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, "a module docstring says what the file is, then where it departs from the paper:\n" + "\n".join(
        silent
    )
