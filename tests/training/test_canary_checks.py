"""A run draws from a restarted engine only after its check, and learns from a step only after engines attested it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.errors import EngineError
from agon.types import Policy, Version
from tests.training.helpers.runs import config, directory, training


class Restarts:
    """A canary whose engine is started anew in one step, and is then right or wrong."""

    def __init__(self, when: int, wrong: bool, overwritten: int = 0) -> None:
        self.when, self.wrong, self.asked, self.overwritten = when, wrong, 0, overwritten
        self.log = list[str]()
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

    def attested(self) -> int:
        return 2

    def attest(self, versions: Iterable[Version]) -> list[str]:
        assert {version.policy for version in versions} == set(Policy)
        self.log.append("attest")
        if len(self.log) == self.overwritten:
            raise EngineError("engine 0 does not hold a", fix="resume")
        return ["a warning"]

    def rest(self) -> None:
        self.log.append("rest")


def test_every_step_and_every_evaluation_asks_and_a_restart_is_reported(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    work, canary = training(run, settings), Restarts(3, wrong=False)
    work.machines = work.log.machines = replace(work.machines, canary=canary)  # type: ignore[arg-type]
    assert work.go()
    assert canary.asked == len(run.steps.records()) + len(work.state.points)
    notes = work.display.notes  # type: ignore[attr-defined]
    assert "engine 0 was restarted; its adapters are verified" in notes
    assert notes.count("a warning") == len(run.steps.records())
    assert canary.log == ["rest"] + ["attest", "rest"] * len(run.steps.records()), "asked before engines sleep"
    assert {timing.attested for timing in run.timings.records()} == {2}


@pytest.mark.parametrize("wrong", ["restarted", "overwritten"])
def test_nothing_is_learnt_from_a_wrong_engine_and_the_run_resumes(tmp_path: Path, wrong: str) -> None:
    settings = config(eval__points=0)
    whole = directory(tmp_path, "whole", settings)
    assert training(whole, settings).go()
    run = directory(tmp_path, "x", settings)
    work = training(run, settings)
    canary = Restarts(4, wrong=True) if wrong == "restarted" else Restarts(0, wrong=False, overwritten=8)
    work.machines = replace(work.machines, canary=canary)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=r"another policy|does not hold"):
        work.go()
    assert len(run.steps.records()) == work.machines.learner.step == 3
    assert training(run, settings).go()
    assert (run.path / "steps.jsonl").read_bytes() == (whole.path / "steps.jsonl").read_bytes()
