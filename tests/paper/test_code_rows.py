"""The paper's code table on rows of the Hub's schema, in the real sandbox: trained rows train, zero-shot evaluates.

Each row's own config plays the whole game with scripted programs. The real learner runs once, on the tiny base, which
writes no programs: there, what is shown is that every part fits.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agon import evaluate, train
from agon.config import Config, load_config
from agon.data import splits
from agon.rundir import read_bouts
from agon.types import Request
from agon.verify import load_verifier
from agon_judge.sandbox import cgroups
from tests.data.helpers import code_row, write_parquet
from tests.training.helpers.runs import directory, training

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

ROWS = Path(__file__).parents[2] / "configs" / "paper" / "code"
FORM = "<think>\nAdd.\n</think>\nRead both, print the sum.\n<answer>\n```python\n{}\n```\n</answer>"
RIGHT, WRONG = FORM.format("print(sum(map(int, input().split())))"), FORM.format("print(3)")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What makes a row of the paper a matter of seconds: a tiny base, few problems, short completions."""
    folder = tmp_path_factory.mktemp("code_contests")
    rows = [code_row(name=f"{n}", description=f"Add two numbers. ({n})") for n in range(8)]
    write_parquet(folder / "train-00000-of-00001.parquet", rows)
    memory = "cgroup" if cgroups.places() else "per_process"
    return [
        *(f"data.{part}.path={folder}" for part in ("train", "dev", "held_out")),
        *("data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2", "eval.points=0"),
        *("model.name=agon:tiny", "model.dtype=float32", "sampler.engine=hf", "game.group_size=4"),
        *(f"sandbox.memory={memory}", "sandbox.workers=2"),
    ]


def half_right(request: Request) -> str:
    return RIGHT if request.seed % 2 else WRONG


def played(config: Config, folder: Path) -> list[dict]:
    run = directory(folder, "x", config)
    with load_verifier(config.verifier, sandbox=config.sandbox.settings()) as verify:
        work = training(run, config, half_right, verify, splits(config.data).train)
        assert work.go()
    assert any(record.standalone.live_groups for record in run.steps.records())
    return read_bouts(run).to_pylist()


@pytest.mark.parametrize("arm", ["grpo", "coop", "agon"])
def test_a_trained_row_of_the_table_trains(arm: str, small: list[str], tmp_path: Path) -> None:
    bouts = played(load_config(ROWS / f"{arm}.yaml", small), tmp_path)
    stages = ("draft",) if arm == "grpo" else ("draft", "challenge")
    judged = {(bout[f"{stage}_text"], bout[f"{stage}_reason"]) for bout in bouts for stage in stages}
    assert judged == {(RIGHT, "correct"), (WRONG, "wrong_output")}
    paid = {bout["challenge_reward"] for bout in bouts} - {None}
    assert paid == {"grpo": set(), "coop": {2.5, 0.5}, "agon": {3.5, 2.5, 0.5}}[arm]
    assert {bout["peek"] for bout in bouts} == ({None} if arm == "grpo" else {"Read both, print the sum."})


@pytest.mark.slow
def test_the_recipe_trains_with_the_real_learner(small: list[str], tmp_path: Path) -> None:
    sizes = ["train.max_completion_tokens=8", "train.max_peek_tokens=8", "train.max_steps=1"]
    run = train(ROWS / "agon.yaml", *small, *sizes, "train.gradient_checkpointing=false", out=tmp_path, show="nothing")
    assert {bout["draft_reason"] for bout in read_bouts(run).to_pylist()} == {"no_program"}


def test_zero_shot_evaluates(small: list[str], tmp_path: Path) -> None:
    words = [*small, "eval.max_completion_tokens=8"]
    result = evaluate("agon:tiny", *words, config=ROWS / "agon.yaml", system="base", out=tmp_path, show="nothing")
    assert (result["base"].measured.trials, result["base"].measured.ungraded) == (2, 0)
