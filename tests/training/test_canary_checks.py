"""A run draws from a restarted engine only after it was checked, and stops when that fails."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.engine.vllm.slope import Slope
from agon.errors import EngineError
from agon.types import Policy, Stream, Version
from tests.training.helpers.runs import config, directory, training


class Restarts:
    """A canary whose engine is started anew in one step, and is then right or wrong."""

    def __init__(self, when: int, wrong: bool) -> None:
        self.when, self.wrong, self.asked = when, wrong, 0
        self.sampler: Any = self
        self.fleet: Any = self
        self.members = [self]

    def check(self, versions: Mapping[Policy, Version]) -> None: ...

    async def attend(self, work: Coroutine[Any, Any, Any], versions: Mapping[Policy, Version]) -> Any:
        assert set(versions) == set(Policy)
        self.asked += 1
        result = await work
        if self.asked == self.when and self.wrong:
            raise EngineError("the engine samples from another policy", fix="resume")
        return result

    def notes(self) -> list[str]:
        return ["engine 0 was restarted; its adapters are verified"] if self.asked == self.when else []

    def gaps(self) -> dict[str, float]:
        return {"a@0-x": 0.25}

    def slopes(self) -> dict[str, Slope]:
        return {}

    def check_samples(self, streams: Sequence[Stream], versions: Mapping[Policy, Version]) -> list[str]:
        return ["a token of A is off"]

    def rest(self) -> None: ...


def test_every_step_and_every_evaluation_asks_and_a_restart_is_reported(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    work, canary = training(run, settings), Restarts(3, wrong=False)
    work.machines = replace(work.machines, canary=canary)  # type: ignore[arg-type]
    assert work.go()
    assert canary.asked == len(run.steps.records()) + len(work.state.points)
    notes = work.display.notes  # type: ignore[attr-defined]
    assert "engine 0 was restarted; its adapters are verified" in notes
    assert notes.count("a token of A is off") == len(run.steps.records())


def test_nothing_is_learnt_from_a_wrong_restart_and_the_run_resumes(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    whole = directory(tmp_path, "whole", settings)
    assert training(whole, settings).go()
    run = directory(tmp_path, "x", settings)
    work = training(run, settings)
    work.machines = replace(work.machines, canary=Restarts(4, wrong=True))  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="another policy"):
        work.go()
    assert len(run.steps.records()) == work.machines.learner.step == 3
    assert training(run, settings).go()
    assert (run.path / "steps.jsonl").read_bytes() == (whole.path / "steps.jsonl").read_bytes()
