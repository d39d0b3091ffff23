"""The generated pages say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def generate(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "scripts" / "generate_docs", *words], capture_output=True, text=True)


def test_the_pages_are_current() -> None:
    done = generate("--check")
    assert done.returncode == 0, done.stderr


def test_a_page_that_is_not_current_is_named_and_then_written(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "scripts" / "generate_docs").write_text((ROOT / "scripts" / "generate_docs").read_text())
    (tmp_path / "docs" / "cli.md").write_text("old")
    done = generate("--check", root=tmp_path)
    assert done.returncode == 1
    pages = ("configuration", "cli", "metrics", "vocabulary")
    assert done.stderr.splitlines() == [f"docs/{page}.md is not current: run scripts/docs --write" for page in pages]
    assert generate(root=tmp_path).returncode == 0
    assert generate("--check", root=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "words", ["## agon config", "usage: agon explain [-h] [--json] WORD", "130 interrupted", "  doctor "]
)
def test_the_page_of_the_command_line_has_every_help(words: str) -> None:
    assert words in (ROOT / "docs" / "cli.md").read_text()
