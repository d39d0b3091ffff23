"""README.md shows what the commands print, and its Python runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from agon_lens.cli import main
from lens_logs import EXAMPLE

README = (Path(__file__).parents[1] / "README.md").read_text()
SHOWN = re.findall(r"```console\n\$ agon-lens (.*?)\n(.*?)```", README, re.DOTALL)
((CODE, PRINTED),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the example is where README.md says."""
    (tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("words", "output"), SHOWN, ids=[words for words, _ in SHOWN])
def test_a_command_prints_what_is_shown(words: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(words)) == 0
    assert capsys.readouterr().out == output


def test_both_commands_are_shown() -> None:
    assert [words.split()[0] for words, _ in SHOWN] == ["diagnose", "view"]


def test_the_python_runs_and_prints_what_is_shown(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(CODE, {})  # noqa: S102
    assert capsys.readouterr().out == PRINTED
    assert (repository / "grpo_log.html").is_file()
