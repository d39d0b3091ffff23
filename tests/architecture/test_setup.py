"""scripts/setup: it says what it does, and installs nothing but what a lock file names by hash."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .tree import ROOT

PYTHON = """#!/bin/sh
if [ "$2" = venv ]; then
  mkdir -p .venv/bin .venv/lib/python3.11/site-packages/torch-2.13.0+cpu.dist-info && cp "$0" .venv/bin/python
fi
if [ "$2" = pip ]; then
  echo "$*" >> calls
  for word in "$@"; do case "$word" in */entries) cat "$word" >> calls;; esac; done
fi
"""
"""Succeeds at everything and notes what pip is asked for; `-m venv` makes it the Python of .venv."""
COPIED = (
    *("scripts/setup", "pyproject.toml", "packages/judge/pyproject.toml", "packages/lens/pyproject.toml"),
    *("constraints/cpu.txt", "constraints/cpu.lock", "constraints/gpu.lock"),
)
TOOLS = ("bash", "dirname", "cat", "sha256sum", "cut", "mktemp", "awk", "grep", "rm", "uname", "ls", "mkdir", "cp")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    clone = tmp_path / "clone"
    for name in COPIED:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    for name in ("python", "bwrap"):
        (tmp_path / name).write_text(PYTHON)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PYTHON", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return clone


def set_up(clone: Path) -> str:
    return subprocess.run([clone / "scripts/setup"], capture_output=True, text=True, check=True).stdout


def test_setup_prints_a_line_per_stage_and_nothing_when_it_is_done(clone: Path) -> None:
    assert set_up(clone).splitlines() == [
        "setup: preparing .venv (1 of 4) ...",
        "setup: installing the locked packages, which takes minutes (2 of 4) ...",
        "setup: installing torch (3 of 4) ...",
        "setup: installing Agon (4 of 4) ...",
        "setup: .venv is ready; to use it: source .venv/bin/activate",
    ]
    assert set_up(clone) == "setup: .venv is up to date\n"


def test_everything_comes_from_the_lock_by_hash_and_torch_after_it_brings_nothing_along(clone: Path) -> None:
    set_up(clone)
    calls = [line for line in (clone / "calls").read_text().splitlines() if line.startswith("-m pip install")]
    assert all("--no-deps" in call for call in calls)
    by_hash = ["--require-hashes" in call for call in calls]
    assert by_hash == [True, True, True, False, False]
    assert "-r constraints/cpu.lock" in calls[2]
    assert "torch==" in calls[3]
    assert "-e ." in calls[4]


def test_pip_itself_is_installed_first_and_by_hash(clone: Path) -> None:
    set_up(clone)
    call, entry, sum_of_it, *_ = (clone / "calls").read_text().splitlines()
    assert "--require-hashes" in call
    assert entry.startswith("pip==")
    assert "--hash=sha256:" in sum_of_it


def test_libraries_of_a_torch_for_cuda_come_by_hash_too(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(PYTHON.replace("+cpu", ""))
    assert "built for CUDA" in set_up(clone)
    text = (clone / "calls").read_text()
    libraries = text[text.index("\nnvidia-cublas==") :]
    assert "--require-hashes" in text[: text.index("\nnvidia-cublas==")].rpartition("-m pip install")[2]
    assert "\ntorch==" not in libraries


def test_what_apt_get_does_is_said_and_shown(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").unlink()
    for name, code in {"apt-get": 'echo "apt-get was asked to $*"', "id": "echo 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    for name in TOOLS:
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = set_up(clone)
    assert "setup: as root: apt-get" in told
    assert "apt-get was asked to install" in told


def test_an_install_from_a_clone_names_all_three_packages() -> None:
    """agon-rl needs the judge and the lens at its own version, which no index has before a release."""
    places = ("docs/**/*.md", "examples/*.*", "configs/**/*.*", "src/agon/recipes/*.yaml")
    pages = [page for place in places for page in ROOT.glob(place) if page.is_file()]
    lines = [(page, line) for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    installs = [(page, line) for page, line in lines if re.search(r"pip install .*-e '?\.(\W|$)", line)]
    assert len(installs) > 8
    assert [(page, line) for page, line in installs if "-e packages/judge -e packages/lens -e" not in line] == []
