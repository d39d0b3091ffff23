"""What users install: the wheel carries the types marker and every asset, and nothing of the repository around it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .tree import ROOT, SOURCE, tracked


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = Path(folder).glob("agon_rl-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_every_file_of_the_package(names: set[str]) -> None:
    wanted = {str(path.relative_to(SOURCE.parent)) for path in tracked() if path.is_relative_to(SOURCE)}
    assert "agon/py.typed" in wanted
    assert wanted <= names, f"missing from the wheel: {sorted(wanted - names)}"


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    strangers = {name for name in names if not name.startswith(("agon/", "agon_rl-"))}
    assert not strangers
