"""What no file may hold: marks of unfinished work, machine paths, swallowed errors, tests skipped without a reason."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .tree import ROOT, tracked

# In two pieces, so that this file does not hold what it forbids.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
UNRELEASED = re.compile(r"pip install\b.*agon-" r"rl")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(tmp|work|root|home|Users)/[A-Za-z]")
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".jsonl", ".sh", ".txt", ".cff", ".html", ".css", ".js", ""}


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked():
        if path.suffix in TEXT and path.name != "LICENSE":
            yield path.relative_to(ROOT), path.read_text()


def matches(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{text[: match.start()].count(chr(10)) + 1} {match.group()}"
        for path, text in texts()
        for match in pattern.finditer(text)
    ]


def test_nothing_is_marked_as_unfinished() -> None:
    found = matches(UNFINISHED)
    assert not found, "finish it, or write it down as a limit in the docs:\n" + "\n".join(found)


def test_no_path_of_a_machine() -> None:
    found = matches(MACHINE_PATH)
    assert not found, "use a path relative to the repository, tmp_path, or an environment variable:\n" + "\n".join(
        found
    )


def test_no_text_advises_to_install_what_is_not_released() -> None:
    by_place = ("src/agon/errors.py", "tests/test_errors.py", "evidence/wheel_install.py")  # outside of a clone only
    found = [match for match in matches(UNRELEASED) if not match.startswith(by_place)]
    assert not found, "say what to type in a clone (agon.errors.install):\n" + "\n".join(found)


def test_the_extras_that_errors_name_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    calls = (node for _, tree in python_trees() for node in ast.walk(tree) if isinstance(node, ast.Call))
    asked = {ast.literal_eval(word) for call in calls if getattr(call.func, "id", "") == "install" for word in call.args
             if isinstance(word, ast.Constant)}  # fmt: skip
    assert asked
    assert asked <= extras.keys()


@cache
def python_trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(text)) for path, text in texts() if path.suffix == ".py"]


def swallows(handler: ast.ExceptHandler) -> bool:
    """A handler of everything that does nothing, or returns a constant as if nothing had happened."""
    broad = handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}
    last = handler.body[0]
    quiet = isinstance(last, ast.Pass) or (isinstance(last, ast.Return) and isinstance(last.value, ast.Constant | None))
    return broad and len(handler.body) == 1 and quiet


def test_no_error_is_swallowed() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in python_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and swallows(node) and "audit_faults" not in path.parts
    ]
    assert not found, "catch what you expect by name, and say what becomes of it:\n" + "\n".join(found)


def skips(tree: ast.Module) -> Iterator[tuple[int, bool]]:
    """Each pytest skip of a file as (line, it gives a reason)."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in ("skip", "skipif", "xfail"):
            continue
        if ast.unparse(node) in (f"pytest.{node.attr}", f"pytest.mark.{node.attr}"):
            call = called.get(id(node))
            named = call is not None and any(word.arg == "reason" for word in call.keywords)
            positional = call is not None and node.attr == "skip" and bool(call.args)
            yield node.lineno, named or positional


def test_a_skipped_test_says_why() -> None:
    found = [f"{path}:{line}" for path, tree in python_trees() for line, reason in skips(tree) if not reason]
    assert not found, "say why it cannot run here (reason=...):\n" + "\n".join(found)


def test_the_forbidden_is_recognised() -> None:
    assert UNFINISHED.search("# TO" + "DO later")
    assert MACHINE_PATH.search("see /ho" + "me/someone")
    assert not MACHINE_PATH.search("https://example.org/work/item, docs/home/index.md, ~/tmp/x")
    handler = ast.parse("try:\n    f()\nexcept Exception:\n    return None").body[0].handlers[0]  # type: ignore[attr-defined]
    assert swallows(handler)
    assert list(skips(ast.parse("@pytest.mark.skip\ndef t(): pass"))) == [(1, False)]
    assert list(skips(ast.parse("pytest.skip('no GPU')"))) == [(1, True)]
