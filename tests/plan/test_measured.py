"""`--from RUN`: seconds of a run's own logs, for more steps, more rows and more evaluations."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.errors import RunDirError
from agon.plan.advice import with_values
from agon.plan.budget import Counts
from agon.plan.measured import scaled
from agon.rundir.manifest import SplitFacts
from agon.rundir.records import Timing, write_record
from tests.rundir.helpers.runs import CONFIG, MANIFEST, new_run, record

OWN = Counts(train=80, dev=10, held_out=10)


def a_run(root: Path, steps: int = 4) -> Path:
    """Steps of 4 rollouts with 9 tokens each: 0.36 s of play, 0.72 of update, 3 to publish; the first is slow."""
    run = new_run(root)
    facts = SplitFacts(hashes={"train": "1f"}, counts={"train": OWN.train, "dev": OWN.dev, "held_out": OWN.held_out})
    (run.path / "manifest.json").unlink()
    write_record(run.path / "manifest.json", MANIFEST.model_copy(update={"data": facts}))
    for step in range(steps):
        seconds = {"play": 0.36, "update": 0.72, "publish": 3.0}
        if not step:
            seconds = {"play": 100.0, "update": 100.0, "publish": 100.0, "rehearse": 99.0, "eval": 60.0}
        run.steps.append(record(step))
        run.timings.append(Timing(step=step, seconds=seconds, tokens_per_second=None, memory={}, canary={}))
    return run.path


def rows(run: Path, counts: Counts, **keys: object) -> dict[str, str]:
    config = with_values(CONFIG, {key.replace("__", "."): value for key, value in keys.items()})
    verdict, section = scaled(config, counts, run)
    found = {label: str(cell) for label, (cell,) in section.rows.items()}
    assert found["run"] in verdict
    return found


def test_play_and_update_grow_with_tokens_and_the_rest_with_steps(tmp_path: Path) -> None:
    """8 problems of 16 rollouts are 32 times the rows that were timed."""
    found = rows(a_run(tmp_path), OWN)
    assert (found["play"], found["update"], found["publish"]) == ("12 s", "23 s", "3 s")
    assert found["step"] == "38 s"
    assert "rehearse" not in found
    assert found["completions average"].startswith("9 tokens")
    assert rows(a_run(tmp_path / "b"), OWN, train__problems_per_step=4)["step"] == "20 s"


def test_evaluations_grow_with_problems(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    usual, twice = (rows(run, Counts(80, dev, 10))["evaluation along the run"] for dev in (10, 20))
    assert (usual, twice) == ("7 min", "14 min"), "seven points of a minute"
    assert rows(run, OWN, eval__points=0)["evaluation along the run"] == "0 s"


def test_another_cap_is_a_warning(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert "warning" in rows(run, OWN, train__max_completion_tokens=32)
    assert "warning" not in rows(run, OWN)


def test_a_run_with_one_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="has 1 timed step"):
        rows(a_run(tmp_path, steps=1), OWN)
