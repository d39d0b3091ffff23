"""The Dockerfiles: pinned images, packages by hash, no root, and only files that reach the builder.

hadolint, which scripts/check runs, knows the rest. The weekly workflow builds them.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from pathlib import Path

import pytest

from .tree import ROOT

FILES = sorted([*(ROOT / "docker").glob("*.Dockerfile"), *(ROOT / "deploy").glob("*.Dockerfile")])


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile with its words, continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def faults(text: str) -> list[str]:
    """What is wrong with a Dockerfile."""
    steps = instructions(text)
    runs = [rest for name, rest in steps if name == "RUN"]
    users = [rest for name, rest in steps if name == "USER"]
    found = [
        f"{rest}: pin the image" for name, rest in steps if name == "FROM" and not re.search(r":\d+\.\d+\.\d+", rest)
    ]
    installs = [part for rest in runs for part in rest.split("&&") if "pip install" in part]
    found += [f"{part}: install by hash" for part in installs if not unresolved(part)]
    return found + ([] if users and users[-1] not in ("root", "0") else ["it ends as root"])


def unresolved(install: str) -> bool:
    """Whether nothing but what a lock file names by hash is installed, torch and Agon itself apart."""
    words = install.split()
    if "--require-hashes" in words:
        return True
    return "--no-deps" in words and (words[-1] == "." or "^torch==" in install)


def test_the_files_are_there() -> None:
    assert [path.name for path in FILES] == ["gateway.Dockerfile", "cpu.Dockerfile", "cuda.Dockerfile"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dockerfile_has_no_fault(path: Path) -> None:
    assert not faults(path.read_text())


def is_sent(source: str, ignored: list[str]) -> bool:
    """Whether .dockerignore lets a file or folder through: the last pattern that matches it, or a parent, decides."""
    sent = True
    for line in ignored:
        pattern = line.removeprefix("!").removeprefix("**/")
        names = [source, *map(str, Path(source).parents)][:-1]
        if any(fnmatch.fnmatch(name, pattern) or ("**/" in line and Path(name).name == pattern) for name in names):
            sent = line.startswith("!")
    return sent


def copied(text: str) -> list[str]:
    return [source for name, rest in instructions(text) if name == "COPY" for source in rest.split()[:-1]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_copies_only_what_exists_and_reaches_the_builder(path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    sources = copied(path.read_text())
    assert sources
    assert [source for source in sources if not (ROOT / source).exists() or not is_sent(source, ignored)] == []


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("pyproject.toml", True),
        ("src", True),
        ("src/agon/cli", True),
        ("constraints/cpu.lock", True),
        ("CHANGELOG.md", False),
        ("configs", False),
        ("packages/judge/tests", False),
        ("constraints/cpu.overrides", False),
    ],
)
def test_what_dockerignore_withholds_is_known(source: str, sent: bool) -> None:
    assert is_sent(source, (ROOT / ".dockerignore").read_text().split()) is sent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_installs_a_lock_that_it_copied_and_starts_the_command(path: Path) -> None:
    text = path.read_text()
    (lock,) = set(re.findall(r"-r (constraints/\S+\.lock)", text))
    assert any(lock in rest for name, rest in instructions(text) if name == "COPY")
    assert 'ENTRYPOINT ["agon"' in text
    for _, rest in instructions(text):
        shlex.split(rest)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("FROM python:latest\nUSER agon", "pin the image"),
        ("FROM python:3.12-slim\nUSER agon", "pin the image"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir '.[serve]'\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir .\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir --no-deps x\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN true", "it ends as root"),
    ],
)
def test_a_fault_is_found(bad: str, fault: str) -> None:
    assert any(fault in found for found in faults(bad))
