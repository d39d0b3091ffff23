"""What `agon train` says at its end."""

from __future__ import annotations

from pathlib import Path

from agon.cli.train import _next


def test_a_run_that_was_never_evaluated_does_not_call_its_pair_the_best(tmp_path: Path) -> None:
    assert "newest pair" in _next(tmp_path, finished=True)
    (tmp_path / "points.json").write_text("[]")
    assert "best pair on dev" in _next(tmp_path, finished=True)
    assert f"agon eval {tmp_path}" in _next(tmp_path, finished=True)


def test_a_run_that_was_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    assert f"agon train {tmp_path} --resume" in _next(tmp_path, finished=False)
