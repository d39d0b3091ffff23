"""The public workflows do what anybody can do in a clone: each step runs a script of ours.

scripts/check holds them against the schemas that GitHub publishes.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from .tree import ROOT

FILES = sorted([*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / ".github" / "actions").rglob("action.yml")])
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def steps(path: Path) -> list[dict[str, Any]]:
    text = yaml.safe_load(path.read_text())
    jobs = text["jobs"].values() if "jobs" in text else [text["runs"]]
    return [step for job in jobs for step in job["steps"]]


def commands(path: Path) -> list[list[str]]:
    return [shlex.split(line) for step in steps(path) for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "/" + path.name)
def test_every_step_runs_a_script_that_exists_and_has_its_options(path: Path) -> None:
    for script, *words in commands(path):
        assert re.fullmatch(r"scripts/[\w-]+|\.ci/run", script), "put it into a script that runs in a clone too"
        assert (ROOT / script).stat().st_mode & 0o100, f"{script} is not executable"
        for word in words:
            assert not word.startswith("--") or word in (ROOT / script).read_text(), f"{script} has no {word}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "/" + path.name)
def test_every_action_is_pinned_by_its_commit_or_ours(path: Path) -> None:
    lines = re.findall(r"uses: (.*)", path.read_text())
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+|\./\.github/actions/\w+", line) for line in lines), lines
    local = [step["uses"] for step in steps(path) if step.get("uses", "").startswith("./")]
    assert all((ROOT / name / "action.yml").exists() for name in local)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "/" + path.name)
def test_a_workflow_may_only_read_and_only_the_release_and_the_site_may_more(path: Path) -> None:
    text = yaml.safe_load(path.read_text())
    if "jobs" not in text:
        return
    assert text["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in text["jobs"].items() if "permissions" in job}
    wanted = {
        "release.yml": {"publish": {"id-token": "write"}},
        "docs.yml": {"deploy": {"pages": "write", "id-token": "write"}},
    }
    assert more == wanted.get(path.name, {})
    assert all("timeout-minutes" in job for job in text["jobs"].values())


def workflow(name: str) -> dict[str, Any]:
    text: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return text


def test_every_declared_python_is_tested_on_every_push() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert workflow("tests.yml")["jobs"]["fast"]["strategy"]["matrix"]["python"] == declared
    for name in ("judge", "lens"):
        project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
        assert re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])) == declared


def test_every_image_is_built_every_week() -> None:
    built = workflow("weekly.yml")["jobs"]["images"]["strategy"]["matrix"]["image"]
    files = [*(ROOT / "docker").glob("*.Dockerfile"), *(ROOT / "deploy").glob("*.Dockerfile")]
    assert sorted(f"{name}.Dockerfile" for name in built) == sorted(str(path.relative_to(ROOT)) for path in files)


def test_nothing_is_published_that_was_not_checked() -> None:
    jobs = workflow("release.yml")["jobs"]
    runs = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert runs[-1].startswith("scripts/release-check --tag")
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["environment"]["name"] == "pypi"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_every_issue_form_asks_what_the_machine_is(path: Path) -> None:
    labels = [part["attributes"].get("label") for part in yaml.safe_load(path.read_text())["body"]]
    assert "agon doctor --json" in labels


@pytest.mark.parametrize("words", [[], ["no.Dockerfile"]])
def test_building_an_image_needs_the_name_of_a_dockerfile(words: list[str]) -> None:
    done = subprocess.run([ROOT / "scripts" / "build-image", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage" in done.stderr
