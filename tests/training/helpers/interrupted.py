"""Runs that die or are stopped, and what is compared of them with a run that nothing interrupts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agon.config import Config
from agon.rundir import RunDir, read_bouts
from agon.types import Request
from tests.training.helpers.runs import directory, half_right, training


def fingerprint(run: RunDir) -> dict[str, Any]:
    """What a run leaves behind."""
    return {
        "steps": (run.path / "steps.jsonl").read_bytes(),
        "points": (run.path / "points.json").read_bytes(),
        "bouts": read_bouts(run).to_pylist(),
        "pair": (run.path / "pair" / "agon.json").read_bytes(),
        "checkpoints": sorted(path.name for path in run.checkpoints.iterdir()),
    }


def whole(tmp_path: Path, settings: Config) -> dict[str, Any]:
    """The fingerprint of a run that nothing interrupts."""
    run = directory(tmp_path, "whole", settings)
    assert training(run, settings).go()
    return fingerprint(run)


class Stop(Exception):
    """The process is gone."""


def dying(after: int) -> Any:
    """A script that dies at its n-th request."""
    asked = 0

    def answer(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == after:
            raise Stop
        return half_right(request)

    return answer


def died_and_resumed(tmp_path: Path, settings: Config, after: int) -> RunDir:
    """A run that dies at its n-th request and is resumed to its end."""
    run = directory(tmp_path, "died", settings)
    with pytest.raises(Stop):
        training(run, settings, answer=dying(after)).go()
    assert training(RunDir.open(run.path), settings).go()
    return run
