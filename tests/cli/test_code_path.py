"""The whole path on programs: a file of problems with tests, the real sandbox, a few problems and steps."""

from __future__ import annotations

import json
import shutil

import pytest

from agon.cli import main
from agon.rundir import RunDir, read_bouts
from agon_judge.sandbox import cgroups
from tests.data.helpers import write_jsonl

pytestmark = [pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"), pytest.mark.slow]

MEMORY = [] if cgroups.places() else ["sandbox.memory=per_process"]
TINY = [
    *("model.name=agon:tiny", "model.dtype=float32", "sampler.engine=hf", "train.gradient_checkpointing=false"),
    *("train.max_steps=2", "train.problems_per_step=2", "game.group_size=2", "eval.points=0", "eval.samples=1"),
    *("train.max_completion_tokens=48", "train.max_peek_tokens=32", "eval.max_completion_tokens=48", *MEMORY),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """What the commands of docs/code.md leave behind."""
    pytest.importorskip("trl", reason="a real pair is trained")
    folder = tmp_path_factory.mktemp("code")
    rows = [
        {"question": f"Print {k} times a number.", "tests": [["1", str(k)], ["7", str(7 * k)]]} for k in range(2, 42)
    ]
    write_jsonl(folder / "mine.jsonl", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in (
            ["init", "custom", "--data", "mine.jsonl", "-o", "mine.yaml"],
            ["data", "check", "mine.yaml", *TINY],
            ["train", "mine.yaml", "--name", "code", *TINY],
            ["eval", "runs/code"],
            ["view", "runs/code"],
            ["report", "runs/code", "--no-figures"],
        ):
            assert main(command) == 0, command
    return RunDir(folder / "runs" / "code")


def test_every_answer_is_judged_by_running_it(run: RunDir) -> None:
    assert sum(record.ungraded for record in run.steps.records()) == 0
    rows = read_bouts(run).to_pylist()
    assert len(rows) == 8
    assert all(row["draft_reason"] and row["challenge_reason"] for row in rows)
    assert not any(row["draft_correct"] for row in rows), "the base knows no Python"


def test_evaluation_viewer_and_report_are_of_programs(run: RunDir) -> None:
    result = json.loads((run.path / "evals" / "held_out" / "ab.json").read_text())
    assert result["settings"]["verifier"] == "code"
    assert (run.path / "match.html").stat().st_size > 50_000
    assert "mine.jsonl" in (run.path / "report" / "report.md").read_text()
