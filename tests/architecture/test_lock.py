"""The lock files: every package by version and hash, all that pyproject.toml asks for, and what CI runs on."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "cpu": ["train", "data", "eval", "plot", "sandbox", "serve", "dev"],
    "gpu": ["train", "data", "eval", "plot", "sandbox", "serve", "vllm", "qwen3-5", "push"],
    "image-cpu": ["train", "data", "eval", "plot", "sandbox", "push"],
    "image-gateway": ["serve", "eval"],
}
"""The extras in each. docker/cuda.Dockerfile installs gpu.lock, the other images the lock with their name."""
ENTRY = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)(.*\n(?: +\S.*\n)*)", re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    """Version by package, the CPU's torch included, which is named in cpu.txt: its build is not on PyPI."""
    text = (ROOT / "constraints" / f"{name}.lock").read_text()
    versions = {canonicalize_name(package): version for package, version, _ in ENTRY.findall(text)}
    return versions | {"torch": pins("cpu")["torch"]} if name in ("cpu", "image-cpu") else versions


OWN = ("agon-judge", "agon-lens")
"""Packages of this repository: the lock files leave them out."""


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


@pytest.mark.parametrize("name", EXTRAS)
def test_every_package_has_a_hash(name: str) -> None:
    entries = ENTRY.findall((ROOT / "constraints" / f"{name}.lock").read_text())
    assert len(entries) > 50
    assert [package for package, _, rest in entries if "--hash=sha256:" not in rest] == []


@pytest.mark.parametrize("name", EXTRAS)
def test_the_lock_satisfies_pyproject_and_the_pins(name: str) -> None:
    versions, extras = locked(name), PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *(need for extra in EXTRAS[name] for need in extras[extra])]:
        need = Requirement(text)
        if need.name in OWN:
            continue
        assert need.specifier.contains(versions[canonicalize_name(need.name)]), text
    for package, version in pins(name).items() if name in ("cpu", "gpu") else ():
        assert versions[package] == version, package


@pytest.mark.parametrize("name", ["gpu", "image-cpu", "image-gateway"])
def test_a_set_without_a_network_can_build_agon(name: str) -> None:
    assert "hatchling" in locked(name)


@pytest.mark.parametrize("name", ["image-cpu", "image-gateway"])
def test_an_image_has_the_versions_that_are_tested(name: str) -> None:
    assert locked(name).items() <= locked("cpu").items()


def test_the_gateway_renders_chat_templates_without_torch() -> None:
    """jinja2 comes with torch elsewhere."""
    assert "torch" not in locked("image-gateway")
    assert "jinja2" in locked("image-gateway")


def test_both_sets_verify_with_the_same_sympy() -> None:
    for package in "sympy", "math-verify", "latex2sympy2-extended", "transformers", "peft", "trl":
        assert locked("cpu")[package] == locked("gpu")[package], package


def test_what_is_installed_is_what_is_locked() -> None:
    """Or CI would test another set than the one that it names."""
    differing = {
        package: (found, version)
        for package, version in locked("cpu").items()
        if (found := importlib.metadata.version(package).split("+")[0]) != version
    }
    assert differing == {}, "run scripts/setup"
