"""One word for one thing, no import circle, few entries, typed seams: the package passes, and each check can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from . import checks, tree


@pytest.mark.parametrize("name", checks.CHECKS)
def test_the_package_passes(name: str) -> None:
    violations = checks.CHECKS[name]()
    assert not violations, "\n".join(violations)


def test_every_allowed_repetition_exists() -> None:
    gone = [
        f"{folder}/{name}"
        for name, (folders, _) in checks.REPEATED_MODULES.items()
        for folder in folders
        if not tree.file_of(".".join(["agon", *filter(None, folder.split("/")), name]))
    ]
    assert not gone, f"remove from REPEATED_MODULES: {gone}"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write a package of these files, by path inside src/agon."""
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    monkeypatch.setattr(tree, "SOURCE", tmp_path / "src" / "agon")

    def write(files: dict[str, str]) -> None:
        for name, text in {"__init__.py": "", **files}.items():
            path = tree.SOURCE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)

    return write


def test_a_public_class_has_one_home(package: Callable[..., None]) -> None:
    package({"a.py": "class Row: ...\nclass _Own: ...", "b/c.py": "class Row: ...\nclass _Own: ..."})
    assert checks.repeated_classes() == ["class Row: rename one of a.py:1, b/c.py:1"]


def test_a_module_name_repeats_only_where_the_folder_says_what_it_is(package: Callable[..., None]) -> None:
    package(dict.fromkeys(["eval/run.py", "training/run.py", "cli/plan.py", "plan.py", "a/words.py", "b/words.py"], ""))
    (message,) = checks.repeated_modules()
    assert message.startswith("module words: rename one of a/words, b/words")


def test_a_third_module_of_an_allowed_name_is_reported(package: Callable[..., None]) -> None:
    package(dict.fromkeys(["eval/run.py", "training/run.py", "data/run.py"], ""))
    (message,) = checks.repeated_modules()
    assert "data/run, eval/run, training/run" in message


def test_a_module_may_not_shadow_the_standard_library(package: Callable[..., None]) -> None:
    package({"eval/statistics.py": "", "types.py": ""})
    (message,) = checks.shadowed_modules()
    assert message.startswith("eval/statistics.py shadows `statistics`")


@pytest.mark.parametrize(
    "back",
    ["from agon.a import x", "def f():\n    from . import a", "from agon import a"],
    ids=["top", "function", "name"],
)
def test_a_circle_is_found_wherever_its_imports_stand(package: Callable[..., None], back: str) -> None:
    package({"a.py": "from agon import b", "b.py": "import agon.c", "c.py": back, "d.py": "import agon.a"})
    (message,) = checks.circles()
    assert message.startswith("import circle of agon.a, agon.b, agon.c:")


def test_a_package_is_a_module_of_its_own(package: Callable[..., None]) -> None:
    """A part may import a part of a room whose `__init__` re-exports it, but not the room."""
    package(
        {
            "room/__init__.py": "from agon.room.one import x",
            "room/one.py": "from agon.room import two",
            "room/two.py": "",
        }
    )
    assert not checks.circles()
    (tree.SOURCE / "room" / "two.py").write_text("from agon.room import x")
    assert len(checks.circles()) == 1


def test_types_for_checkers_make_no_circle(package: Callable[..., None]) -> None:
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agon import a"
    package({"a.py": "import agon.b", "b.py": lazy})
    assert not checks.circles()


def test_data_folders_are_no_entries(package: Callable[..., None]) -> None:
    package({"a.py": "", "recipes/x.py": "", "assets/y.py": ""})
    assert checks.entries() == ["__init__.py", "a.py"]


def test_untyped_dictionaries_are_counted_everywhere_and_named_in_public_signatures(
    package: Callable[..., None],
) -> None:
    init = "if TYPE_CHECKING:\n    from agon.room import Run, go"
    room = "from agon.room.run import Run, go"
    run = """
class Run:
    facts: Mapping[str, Any]
    _own: dict[str, Any]
    def read(self) -> list[dict[str, Any]]: ...
    def _read(self) -> dict[str, Any]: ...
def go(*, run: Run) -> dict[str, int]: ...
def other(x: dict[str, Any]) -> None: ...
"""
    package({"room/run.py": run, "room/__init__.py": room, "__init__.py": init})
    assert len(checks.any_dicts()) == 5
    assert checks.any_dicts_in_public_signatures() == [
        "agon.Run.facts: replace `Mapping[str, Any]` by a record",
        "agon.Run.read: replace `dict[str, Any]` by a record",
    ]
