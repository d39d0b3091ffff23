"""The Dockerfiles, which CI does not build: pinned images, packages by hash, no root, and only files that are there.

hadolint is not a Python package; these are the rules of it that matter here, and a few that it cannot know.
"""

from __future__ import annotations

import fnmatch
import re
import shlex

import pytest

from .tree import ROOT

FILES = sorted([*(ROOT / "docker").glob("*.Dockerfile"), *(ROOT / "deploy").glob("*.Dockerfile")])
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}


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
    found = [f"{name} is not an instruction that is used here" for name, _ in steps if name not in KNOWN]
    found += [
        f"{rest}: pin the image" for name, rest in steps if name == "FROM" and not re.search(r":\d+\.\d+\.\d+", rest)
    ]
    found += [
        f"{rest}: --no-install-recommends" for rest in runs if "apt-get install" in rest and "--no-inst" not in rest
    ]
    found += [
        f"{rest}: remove the lists" for rest in runs if "apt-get update" in rest and "rm -rf /var/lib/apt" not in rest
    ]
    installs = [part for rest in runs for part in rest.split("&&") if "pip install" in part]
    found += [f"{part}: --no-cache-dir" for part in installs if "--no-cache-dir" not in part]
    found += [f"{part}: install by hash" for part in installs if not unresolved(part)]
    found += [] if users and users[-1] not in ("root", "0") else ["it ends as root"]
    found += [] if steps and steps[0][0] == "FROM" else ["FROM comes first"]
    return found + ([] if "does not build it" in text else ["say that CI does not build it"])


def unresolved(install: str) -> bool:
    """Whether nothing but what a lock file names by hash is installed, torch and Agon itself apart."""
    words = install.split()
    if "--require-hashes" in words:
        return True
    return "--no-deps" in words and (words[-1] == "." or "^torch==" in install)


def test_the_files_are_there() -> None:
    assert [path.name for path in FILES] == ["gateway.Dockerfile", "cpu.Dockerfile", "cuda.Dockerfile"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dockerfile_has_no_fault(path) -> None:  # type: ignore[no-untyped-def]
    assert not faults(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_copies_what_is_there_and_not_ignored(path) -> None:  # type: ignore[no-untyped-def]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*", "nothing is sent to the builder but what is named"
    for rest in (rest for name, rest in instructions(path.read_text()) if name == "COPY"):
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch.fnmatch(source, line[1:]) for line in ignored if line.startswith("!")), source


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_installs_a_lock_that_it_copied_and_starts_the_command(path) -> None:  # type: ignore[no-untyped-def]
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
        ("FROM a:1.2.3\nRUN apt-get update && apt-get install -y git\nUSER agon", "--no-install-recommends"),
        ("FROM a:1.2.3\nRUN pip install x\nUSER agon", "--no-cache-dir"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir '.[serve]'\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir .\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN pip install --no-cache-dir --no-deps x\nUSER agon", "install by hash"),
        ("FROM a:1.2.3\nRUN true", "it ends as root"),
        ("FROM a:1.2.3\nADD http://h/x .\nUSER agon", "ADD is not an instruction"),
    ],
)
def test_a_fault_is_found(bad: str, fault: str) -> None:
    assert any(fault in found for found in faults(bad))
