"""`agon demo`: trains, evaluates and names the next commands; the numbers it tells are those on disk."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from agon.cli import demo, find, main
from agon.report.collect import read_run
from agon.report.curve import curve
from tests.report.helpers import make_study


def test_the_closing_words_tell_what_is_on_disk_and_name_real_commands(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    words, points = demo.closing(path), curve(read_run(path))
    assert f"{points[0].reward:.2f} at step 0, {points[-1].reward:.2f} at step 30" in words
    commands = [line.split()[1] for line in words.splitlines() if line.startswith("  agon ")]
    assert commands == ["view", "report", "diagnose", "init"]
    assert all(find(name) for name in commands)


def test_every_command_named_next_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_study(tmp_path / "my runs", {"agon": 1})[0]
    monkeypatch.chdir(tmp_path)
    words = [shlex.split(line, comments=True) for line in demo.commands(path.relative_to(tmp_path)).splitlines()]
    assert [word[0] for word in words] == ["agon"] * 4
    assert main([*words[1][1:], "--no-figures"]) == 0
    assert (path / "report" / "report.md").is_file()
    assert main(words[3][1:]) == 0


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert demo._free(tmp_path / "demo").name == "demo"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo-2").mkdir()
    assert demo._free(tmp_path / "demo").name == "demo-3"


def test_without_the_training_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("a_package_that_nobody_has",))
    assert main(["demo"]) == 2
    assert "pip install" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_way_on_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("trl", reason="the demo trains a real pair")
    small = {"data.dev.take": 4, "data.held_out.take": 4, "train.max_steps": 2, "train.problems_per_step": 2}
    kept = [word for word in demo.SMALLER if word.split("=")[0] not in {*small, "eval.points"}]
    monkeypatch.setattr(demo, "SMALLER", (*kept, "eval.points=1", *(f"{key}={value}" for key, value in small.items())))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "dev reward of the cascade" in out
    assert [point.step for point in curve(read_run(tmp_path / "demo"))] == [0, 2]
    assert (tmp_path / "demo" / "evals" / "held_out" / "cascade.json").is_file()
    assert main(["view", str(tmp_path / "demo")]) == 0
    assert main(["report", str(tmp_path / "demo"), "--no-figures"]) == 0
    assert main(["export", str(tmp_path / "demo"), "--to", "peft"]) == 0
