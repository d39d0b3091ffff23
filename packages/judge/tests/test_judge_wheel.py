"""What users install: the wheel holds every file of the package, probes and types marker included, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=PACKAGE, check=True, capture_output=True)
    (path,) = folder.glob("agon_judge-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = [path for path in (PACKAGE / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    wanted = {path.relative_to(PACKAGE / "src").as_posix() for path in files}
    assert {"agon_judge/py.typed", "agon_judge/math/assets/probes.json"} < wanted
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted


def test_the_wheel_installs_the_command_and_needs_three_packages(wheel: zipfile.ZipFile) -> None:
    (entries, metadata) = (
        wheel.read(name).decode()
        for ending in ("entry_points.txt", "METADATA")
        for name in wheel.namelist()
        if name.endswith(ending)
    )
    assert "agon-judge = agon_judge.cli:main" in entries
    assert "[agon.commands]\naudit = agon_judge.cli.audit" in entries
    needs = [
        line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra" not in line
    ]
    assert {re.split("[<>]", need)[0] for need in needs} == {"math-verify", "sympy", "cloudpickle"}
