"""The paper's code table on rows of the Hub's schema: its three trained rows train, and zero-shot is evaluated.

The configs are those of `configs/paper/code`; the base, the rows and the sizes are small.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import agon
from agon.rundir.pair import read_pair
from agon_judge.sandbox import cgroups
from tests.data.helpers import code_row, write_parquet

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "paper" / "code"
SMALLER = [
    *("model.name=agon:tiny", "model.dtype=float32", "sampler.engine=hf", "eval.points=0", "eval.samples=1"),
    *("train.max_steps=2", "train.problems_per_step=2", "game.group_size=4", "train.gradient_checkpointing=false"),
    *("train.max_completion_tokens=80", "train.max_peek_tokens=48", "eval.max_completion_tokens=80"),
    *("data.dev.take=2", "data.held_out.take=4"),
    *([] if cgroups.places() else ["sandbox.memory=per_process"]),
]


def hub_row(number: int) -> dict[str, object]:
    """A problem as CodeContests publishes it."""
    cases = [(str(n), str(n * number)) for n in (1, 7, 30)]
    sets = {"public_tests": cases[:1], "private_tests": cases[1:2], "generated_tests": cases[2:]}
    tests = {name: {"input": [i for i, _ in of], "output": [o for _, o in of]} for name, of in sets.items()}
    return code_row(name=f"{number}_A", description=f"Print {number} times a number.", **tests)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    pytest.importorskip("trl", reason="the configs train a real pair")
    made = [hub_row(number) for number in range(2, 14)]
    file = write_parquet(tmp_path_factory.mktemp("hub") / "code_contests.parquet", made)
    return [f"data.{split}.path={file}" for split in ("train", "dev", "held_out")]


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["grpo", "coop", "agon"])
def test_a_trained_row_of_the_table_trains(arm: str, rows: list[str], tmp_path: Path) -> None:
    run = agon.train(CONFIGS / f"{arm}.yaml", *SMALLER, *rows, out=tmp_path, name=arm, show="nothing")
    steps = run.steps.records()
    assert [step.ungraded for step in steps] == [0, 0]
    assert read_pair(run.path).info.code


def test_zero_shot_is_evaluated(rows: list[str], tmp_path: Path) -> None:
    found = agon.evaluate("agon:tiny", *SMALLER, *rows, config=CONFIGS / "base.yaml", out=tmp_path, show="nothing")
    assert (found.headline.system, found.headline.of) == ("base", 4)
    assert found.headline.measured.ungraded == 0
