"""What users install: the wheel carries the types marker and every asset, and nothing of the repository around it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .tree import ROOT, SOURCE, tracked

pytestmark = pytest.mark.slow
HEAVY = {"torch", "transformers", "peft", "trl", "vllm", "datasets", "scipy", "matplotlib", "huggingface_hub"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (path,) = Path(folder).glob("agon_rl-*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def names(wheel: zipfile.ZipFile) -> set[str]:
    return set(wheel.namelist())


def written(wheel: zipfile.ZipFile, name: str) -> str:
    (file,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(file).decode()


def test_the_light_install_is_light_and_all_is_without_ray_and_tinker(wheel: zipfile.ZipFile) -> None:
    needs = [
        Requirement(line) for line in re.findall(r"^Requires-Dist: (.*)$", written(wheel, "METADATA"), re.MULTILINE)
    ]
    always = {need.name for need in needs if need.marker is None}
    assert {"agon-judge", "agon-lens"} < always
    assert not always & HEAVY

    def of(extra: str) -> set[str]:
        return {need.name for need in needs if need.marker and need.marker.evaluate({"extra": extra})}

    assert of("all") == set.union(*map(of, ("train", "vllm", "data", "eval", "plot", "sandbox", "serve")))
    assert "tinker" not in of("all")


def test_pictures_and_links_of_the_front_page_have_whole_addresses(wheel: zipfile.ZipFile) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", written(wheel, "METADATA"))
    assert sum(target.endswith((".svg", ".png")) for target in targets) == 3
    assert all(target.startswith(("https://", "#")) for target in targets), targets


def test_the_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    assert "agon = agon.cli:main" in written(wheel, "entry_points.txt")


def test_the_wheel_holds_every_file_of_the_package(names: set[str]) -> None:
    wanted = {str(path.relative_to(SOURCE.parent)) for path in tracked() if path.is_relative_to(SOURCE)}
    assert "agon/py.typed" in wanted
    assert wanted <= names, f"missing from the wheel: {sorted(wanted - names)}"


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    strangers = {name for name in names if not name.startswith(("agon/", "agon_rl-"))}
    assert not strangers
