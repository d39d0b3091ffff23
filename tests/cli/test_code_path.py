"""The whole path on programs: every command of docs/code.md, with the real sandbox, on a few problems and steps."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from agon.cli import main
from agon.rundir import RunDir, read_bouts
from agon.types import Policy
from agon_judge.sandbox import cgroups

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "code.md").read_text()
COMMANDS = re.findall(r"^agon .*$", PAGE.partition("## Templated")[0], re.MULTILINE)
MEMORY = [] if cgroups.places() else ["sandbox.memory=per_process"]
SMALLER = {
    "train": [
        *("train.max_steps=3", "train.problems_per_step=3", "eval.points=1"),
        *("data.train.take=9", "data.dev.take=2", "data.held_out.take=6", *MEMORY),
    ],
    "data": ["data.train.take=9", "data.dev.take=2", "data.held_out.take=6", *MEMORY],
    "report": ["--no-figures"],
    "sandbox": ["--memory", "per_process"] if MEMORY else [],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """The run that the commands of the page leave behind."""
    pytest.importorskip("trl", reason="the page trains a real pair")
    folder = tmp_path_factory.mktemp("clone")
    (folder / "configs").symlink_to(ROOT / "configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            words = shlex.split(command, comments=True)[1:]
            assert main([*words, *SMALLER.get(words[0], [])]) == 0, command
    return RunDir(folder / "runs" / "code")


def test_the_page_has_the_whole_path() -> None:
    assert [command.split()[1] for command in COMMANDS] == ["sandbox", "data", "train", "eval", "view", "report"]


@pytest.mark.slow
def test_at_least_half_of_the_groups_are_live_and_every_program_has_a_verdict(run: RunDir) -> None:
    streams = [stream for record in run.steps.records() for stream in record.streams]
    assert len(streams) == 6
    assert 2 * sum(stream.live_groups for stream in streams) >= sum(stream.groups for stream in streams)
    assert sum(record.ungraded for record in run.steps.records()) == 0


@pytest.mark.slow
def test_some_programs_pass_their_tests_and_some_do_not(run: RunDir) -> None:
    rates = [stream.pass_rate or 0 for record in run.steps.records() for stream in record.streams]
    assert 0.05 < sum(rates) / len(rates) < 0.75


@pytest.mark.slow
def test_both_adapters_moved(run: RunDir) -> None:
    first, last = run.steps.records()[0], run.steps.records()[-1]
    assert all(first.versions[policy] != last.versions[policy] for policy in Policy)


@pytest.mark.slow
def test_programs_are_in_the_bouts_the_evaluation_the_viewer_and_the_report(run: RunDir) -> None:
    rows = read_bouts(run).to_pylist()
    assert sum("```python\nv = " in row["draft_text"] for row in rows) > len(rows) / 2
    assert {row["draft_reason"] for row in rows} >= {"correct", "wrong_output"}
    result = json.loads((run.path / "evals" / "held_out" / "cascade.json").read_text())
    assert result["settings"]["verifier"] == "code"
    assert (run.path / "match.html").stat().st_size > 50_000
    assert "tabletop-code" in (run.path / "report" / "report.md").read_text()
