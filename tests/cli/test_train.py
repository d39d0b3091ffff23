"""What `agon train` prints at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.cli import main
from agon.rundir import RunDir
from agon.training import run as module
from tests.rundir.helpers import runs
from tests.training.helpers.records import POINT


@pytest.mark.parametrize(
    ("choice", "points", "which"),
    [("best", [], "last pair"), ("best", [POINT], "best pair on dev"), ("last", [POINT], "last pair")],
)
def test_the_end_says_which_pair_is_in_the_folder(
    choice: str,
    points: list,
    which: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = runs.new_run(tmp_path)
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("pair: last", f"pair: {choice}"))
    if points:
        run.write_points(points)
    monkeypatch.setattr(module, "train", lambda *words, **more: RunDir(run.path))
    assert main(["train", "some.yaml"]) == 0
    printed = capsys.readouterr().err
    assert which in printed
    assert f"agon eval {run.path}" in printed


def test_an_interrupted_run_says_how_to_resume_and_leaves_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*words: object, **more: object) -> RunDir:
        raise KeyboardInterrupt("stopped and saved; resume with: agon train X --resume")

    monkeypatch.setattr(module, "train", interrupted)
    assert main(["train", "some.yaml"]) == 130
    assert capsys.readouterr().err == "stopped and saved; resume with: agon train X --resume\n"


def test_only_the_first_process_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "train", lambda *words, **more: RunDir(runs.new_run(tmp_path).path))
    monkeypatch.setenv("RANK", "1")
    assert main(["train", "some.yaml"]) == 0
    assert capsys.readouterr() == ("", "")
