"""README.md shows what the commands print, and its Python runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import agon_judge
from agon_judge.cli import main
from agon_judge.code.judge import CodeJudge
from agon_judge.sandbox import HostSandbox
from judge_helpers import HERE

README = (Path(__file__).parents[1] / "README.md").read_text()
CONSOLE = "".join(re.findall(r"```console\n(.*?)```", README, re.DOTALL))
SHOWN = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", CONSOLE, re.MULTILINE)
COMMANDS = [(words, text) for words, text in SHOWN if words.startswith("agon-judge ")]
((CODE, PRINTED),) = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", README, re.DOTALL)
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_a_command_prints_what_is_shown(command: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = ["bash", "-c", f"printf '%s\\0' {command}"]  # it takes $ between double quotes for its own
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")[1:-1]
    assert main(words) == (0 if output.startswith("right") else 1)
    assert capsys.readouterr().out == output


@needs_bwrap
def test_the_python_runs_and_prints_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = CodeJudge(HostSandbox(workers=2, memory=HERE))  # type: ignore[arg-type]
    monkeypatch.setattr(agon_judge, "CodeJudge", lambda: here, raising=False)
    exec(CODE, {})  # noqa: S102
    assert capsys.readouterr().out == PRINTED
