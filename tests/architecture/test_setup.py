"""scripts/setup: it takes minutes, so it says what it does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .tree import ROOT

PYTHON = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p .venv/bin && cp "$0" .venv/bin/python; fi
"""
"""Succeeds at everything; `-m venv` makes it the Python of .venv."""


def test_setup_prints_a_line_per_stage_and_nothing_when_it_is_done(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for name in ("scripts/setup", "pyproject.toml", "constraints/cpu.txt", "constraints/cpu.lock"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    for name in ("python", "bwrap"):
        (tmp_path / name).write_text(PYTHON)
        (tmp_path / name).chmod(0o755)
    variables = {**os.environ, "PYTHON": str(tmp_path / "python"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    made, again = (
        subprocess.run([clone / "scripts/setup"], env=variables, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert made.splitlines() == [
        "setup: preparing .venv (1 of 4) ...",
        "setup: installing torch (2 of 4) ...",
        "setup: installing the locked packages, which takes minutes (3 of 4) ...",
        "setup: installing Agon (4 of 4) ...",
        "setup: .venv is ready; to use it: source .venv/bin/activate",
    ]
    assert again == "setup: .venv is up to date\n"
