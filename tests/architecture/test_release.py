"""scripts/release-check refuses what must not be released, and says why; stale results are refused nowhere else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .tree import ROOT, script

sys.path.insert(0, str(ROOT / "evidence"))
import _sources

HOLDERS = {
    *("README.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "pyproject.toml"),
    *("packages/judge/pyproject.toml", "packages/lens/pyproject.toml"),
    *(".github/ISSUE_TEMPLATE/config.yml", "examples/free_gpu.ipynb", "mkdocs.yml", "CITATION.cff"),
}
"""The files that may name the repository, which is not decided yet."""
COPIED = (
    *("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "README.md", "LICENSE"),
    *("src/agon/__init__.py", "packages/judge", "packages/lens"),
)


@pytest.fixture
def release() -> ModuleType:
    return script("release-check")


@pytest.fixture
def clone(release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small copy of this tree that can be released, and that `release` looks at."""
    root = tmp_path / "clone"
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, root / name)
    (root / "README.md").write_text("see [x](evidence/peek.py)\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## [0.1.0] - 2026-01-31\n")
    (root / "evidence" / "results").mkdir(parents=True)
    (root / "evidence" / "peek.py").write_text("")
    keep(root)
    monkeypatch.setattr(release, "ROOT", root)
    monkeypatch.setattr(_sources, "why_changed", lambda script: None)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    commit(root)
    for name in release.placeholders():
        (root / name).write_text((root / name).read_text().replace(release.PLACEHOLDER, "me/agon"))
    commit(root)
    return root


def keep(root: Path, **more: object) -> None:
    result = {"holds": True, "dirty": False, "date": "2026-01-31", **more}
    (root / "evidence" / "results" / "peek.json").write_text(json.dumps(result))


def commit(root: Path) -> None:
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    who = ["-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=root, check=True)


def problems(release: ModuleType, root: Path, tag: str | None = None) -> list[str]:
    commit(root)
    return list(release.problems(tag, root.parent / "dist"))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_placeholder_stands_only_where_it_is_looked_for(release: ModuleType) -> None:
    held = set(release.placeholders())
    assert held <= HOLDERS, "name the repository elsewhere, or add the file here"


@pytest.mark.slow
def test_a_tree_without_fault_is_ready_and_its_packages_are_built(release: ModuleType, clone: Path) -> None:
    assert problems(release, clone, "v0.1.0") == []
    built = sorted(path.name for path in (clone.parent / "dist").iterdir())
    assert [name.partition("-")[0] for name in built] == ["agon_judge"] * 2 + ["agon_lens"] * 2 + ["agon_rl"] * 2


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("CITATION.cff", "version: 0.1.0", "version: 0.0.9", "CITATION.cff"),
        ("packages/judge/pyproject.toml", 'version = "0.1.0"', 'version = "0.1.1"', "packages/judge/pyproject.toml"),
        ("packages/lens/src/agon_lens/__init__.py", '"0.1.0"', '"0.2.0"', "agon_lens/__init__.py"),
        ("pyproject.toml", "agon-judge==0.1.0", "agon-judge>=0.1.0", "agon-judge>=0.1.0"),
        ("CHANGELOG.md", "[0.1.0] - 2026-01-31", "[Unreleased]", "CHANGELOG.md"),
        ("CHANGELOG.md", "[0.1.0] - 2026-01-31", "[0.1.0]", "CHANGELOG.md"),
    ],
)
def test_versions_and_changelog_must_agree(
    release: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, told: str
) -> None:
    monkeypatch.setattr(release, "build_problems", lambda *_: [])
    replace(clone / name, old, new)
    (problem,) = problems(release, clone)
    assert told in problem


@pytest.mark.parametrize("more", [{"holds": False}, {"dirty": True}])
def test_a_result_on_the_front_page_holds_and_was_measured_on_a_clean_tree(
    release: ModuleType, clone: Path, more: dict[str, object]
) -> None:
    keep(clone, **more)
    (problem,) = release.result_problems()
    assert "peek" in problem


def test_a_stale_result_is_refused_if_the_front_page_shows_it(
    release: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sources, "why_changed", lambda script: "2 files changed")
    (problem,) = release.result_problems()
    assert "scripts/prove peek" in problem
    (clone / "README.md").write_text("no numbers\n")
    assert list(release.result_problems()) == []


def test_the_tag_the_placeholder_and_an_unclean_tree_are_told(release: ModuleType, clone: Path) -> None:
    replace(clone / "pyproject.toml", "[project.urls]", f'[project.urls]\nx = "{release.PLACEHOLDER}"')
    told = list(release.problems("v9", clone.parent / "dist"))
    assert len(told) == 3
    assert "v9" in told[0]
    assert "not committed" in told[1]
    assert "pyproject.toml" in told[2]


def test_the_repository_is_written_wherever_its_placeholder_stands(
    release: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / "CODE_OF_CONDUCT.md").write_text(f"https://github.com/{release.PLACEHOLDER}/x\n")
    monkeypatch.setattr(sys, "argv", ["release-check", "--repository", "me/agon"])
    assert release.main() == 0
    assert (clone / "CODE_OF_CONDUCT.md").read_text() == "https://github.com/me/agon/x\n"
    assert release.placeholders() == []
    monkeypatch.setattr(sys, "argv", ["release-check", "--repository", "https://me"])
    with pytest.raises(SystemExit):
        release.main()
