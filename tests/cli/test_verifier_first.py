"""A verifier that cannot work is refused before anything is started: nothing is read, made or loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agon.cli import main
from agon_judge.sandbox import leaks
from agon_judge.sandbox.execution import Ending, Execution, ProgramLimits

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CODE = [str(CONFIGS / "paper" / "code" / "agon.yaml")]
TABLETOP = str(CONFIGS / "tabletop" / "agon.yaml")
COMMANDS = {
    "train": ["train", "CONFIG", "--out", "runs"],
    "eval": ["eval", "agon:tiny", "--config", "CONFIG", "--out", "evals"],
    "matrix": ["matrix", "CONFIG", "--arms", "grpo,agon", "--out", "matrix"],
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is typed. Whoever reads problems or loads a model from there fails the test."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    for name in ("agon.training.run.splits", "agon.training.run.build", "agon.eval.target.splits"):
        monkeypatch.setattr(name, started)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class Leaky:
    """A fake sandbox in which every program does what it likes."""

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        yield Execution(Ending.EXITED, stdout=b"LEAK everything\n")

    def close(self) -> None: ...


def typed(command: str, config: list[str]) -> int:
    words = COMMANDS[command]
    place = words.index("CONFIG")
    return main([*words[:place], config[0], *words[place + 1 :], *config[1:]])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_sandbox_that_leaks_is_refused_first(
    command: str, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: Leaky())
    monkeypatch.setattr(leaks, "_held", set())
    assert typed(command, CODE) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("error: the sandbox leaks: environment: everything")
    assert told[1].startswith("fix: agon-judge sandbox check")
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", [None, "", "judge = 42", "judge = lambda x: x", "def judge(:", "raise RuntimeError"])
def test_a_function_that_cannot_be_used_is_refused_first(
    command: str,
    text: str | None,
    empty_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"judges_of_{tmp_path.name}"
    monkeypatch.syspath_prepend(tmp_path)
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    assert typed(command, [TABLETOP, f"verifier={name}:judge"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in told] == ["error", "fix"]
    assert list(empty_folder.iterdir()) == []
