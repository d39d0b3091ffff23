"""README's quickstart does what it says, command by command; `evidence/quickstart.py` runs it in full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
from quickstart import WRITTEN, commands  # noqa: E402 - evidence/ is not a package

COMMANDS = commands()
SMALL = ROOT / "tests" / "fixtures" / "small_demo"


def test_the_block_holds_commands_that_parse() -> None:
    from agon.cli import parser_of

    assert [words[0] for words in COMMANDS] == ["agon"] * len(COMMANDS)
    assert COMMANDS[0] == ["agon", "demo"]
    for _, name, *rest in COMMANDS:
        parser_of(name).parse(rest)


@pytest.mark.slow
def test_the_quickstart_runs_as_it_is_written(tmp_path: Path) -> None:
    """With a demo of two steps; its size is all that differs from what users see."""
    pytest.importorskip("trl", reason="the demo trains real policies")
    path = os.pathsep.join(map(str, (SMALL, ROOT / "src")))
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    told = {}
    for _, *words in COMMANDS:
        command = [sys.executable, "-m", "agon", *words]
        done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{words}\n{done.stderr[-2000:]}"
        told[words[0]] = done.stdout
    assert all((tmp_path / name).is_file() for name in WRITTEN)
    assert "6 held-out problems" in told["demo"]
    assert "A reads B's draft" in told["demo"]
