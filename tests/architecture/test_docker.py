"""The Dockerfiles, which CI does not build: pinned images, small layers, no root, and only files that are there.

hadolint is not a Python package; these are the rules of it that matter here, and a few that it cannot know.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
import tomllib

import pytest

from .tree import ROOT

FILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "ENTRYPOINT", "CMD"}


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
    found += [f"{rest}: pin the image" for name, rest in steps if name == "FROM" and not re.search(r":\d+\.\d+", rest)]
    found += [
        f"{rest}: --no-install-recommends" for rest in runs if "apt-get install" in rest and "--no-inst" not in rest
    ]
    found += [
        f"{rest}: remove the lists" for rest in runs if "apt-get update" in rest and "rm -rf /var/lib/apt" not in rest
    ]
    found += [f"{rest}: --no-cache-dir" for rest in runs if "pip install" in rest and "--no-cache-dir" not in rest]
    found += [] if users and users[-1] not in ("root", "0") else ["it ends as root"]
    found += [] if steps and steps[0][0] == "FROM" else ["FROM comes first"]
    return found + ([] if "does not build it" in text else ["say that CI does not build it"])


def test_both_files_are_there() -> None:
    assert [path.name for path in FILES] == ["cpu.Dockerfile", "cuda.Dockerfile"]


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
def test_it_installs_extras_that_exist_and_starts_the_command(path) -> None:  # type: ignore[no-untyped-def]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = path.read_text()
    (asked,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(asked.split(",")) <= extras.keys()
    assert 'ENTRYPOINT ["agon"]' in text
    for _, rest in instructions(text):
        shlex.split(rest)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("FROM python:latest\nUSER agon", "pin the image"),
        ("FROM a:1.2\nRUN apt-get update && apt-get install -y git\nUSER agon", "--no-install-recommends"),
        ("FROM a:1.2\nRUN pip install x\nUSER agon", "--no-cache-dir"),
        ("FROM a:1.2\nRUN true", "it ends as root"),
        ("FROM a:1.2\nADD http://h/x .\nUSER agon", "ADD is not an instruction"),
    ],
)
def test_a_fault_is_found(bad: str, fault: str) -> None:
    assert any(fault in found for found in faults(bad))
