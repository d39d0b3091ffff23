"""CI fails when a test does, at once; a test in quarantine runs, is named, and fails nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .tree import ROOT

TESTS = """
import pytest

@pytest.mark.quarantine(reason="waits for a busy disk")
def test_that_fails_now(): assert False

@pytest.mark.quarantine(reason="waits for a busy disk")
def test_that_passes_now(): pass

@pytest.mark.quarantine(reason="waits for a busy disk")
class TestGroup:
    def test_inside(self): assert False
"""


def run_tests(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(text)
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *settings, "-p", "tests.conftest", str(folder / "test_some.py")]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)


def test_a_test_in_quarantine_runs_and_is_reported_by_name_and_fails_no_build(tmp_path: Path) -> None:
    done = run_tests(tmp_path, TESTS)
    assert done.returncode == 0, done.stdout
    assert "2 xfailed, 1 xpassed" in done.stdout
    for name in ("test_that_fails_now", "test_that_passes_now", "test_inside"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("X") and name in line]
        assert "quarantine: waits for a busy disk" in line


def test_a_test_outside_of_quarantine_still_fails_the_build(tmp_path: Path) -> None:
    assert run_tests(tmp_path, f"{TESTS}\ndef test_plain(): assert False\n").returncode == 1


def test_quarantine_needs_a_reason(tmp_path: Path) -> None:
    done = run_tests(tmp_path, "import pytest\n@pytest.mark.quarantine\ndef test_x(): pass\n")
    assert done.returncode == 4
    assert "test_x" in done.stderr
    assert "reason=" in done.stderr


def test_ci_runs_a_failing_test_suite_once_and_fails(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    fails_once = "#!/bin/sh\necho {} >> ran\n[ $(wc -l < ran) -gt 3 ] || exit {}\n"
    for name, code in {"setup": 0, "check": 0, "test": 1, "docs": 0}.items():
        (tmp_path / "scripts" / name).write_text(fails_once.format(name, code))
        (tmp_path / "scripts" / name).chmod(0o755)
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True)
    assert done.returncode == 1
    assert (tmp_path / "ran").read_text().split() == ["setup", "check", "test"]


def test_only_the_fast_tier_leaves_tests_out_and_ci_runs_the_whole(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts" / "test")
    (tmp_path / ".venv" / "bin" / "pytest").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / ".venv" / "bin" / "pytest").chmod(0o755)

    def words(*options: str) -> list[str]:
        command = [tmp_path / "scripts" / "test", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert words("--fast", "tests/game")[-3:] == ["-m", "not slow", "tests/game"]
    assert "-m" not in words("tests/game")
    assert "--fast" not in (ROOT / ".ci" / "run").read_text()


def test_the_seconds_of_every_folder_are_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for folder in ("one", "two"):
        (tmp_path / folder / f"test_{folder}.py").write_text("def test_x(): pass\n")
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *settings, "-p", "tests.conftest", str(tmp_path)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
    section = done.stdout.partition("seconds by folder")[2]
    assert {"one", "two"} <= {line.split()[-1] for line in section.splitlines() if line.strip()}
