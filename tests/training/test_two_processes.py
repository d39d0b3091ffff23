"""`torchrun -m agon train` with two processes is the run that one process makes: the same bouts, one set of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.rundir import read_bouts

ROOT = Path(__file__).resolve().parents[2]
SIZES = ["data.train.take=16", "data.dev.take=4", "train.problems_per_step=4", "train.max_steps=3", "game.group_size=4"]
SIZES += ["train.max_completion_tokens=48", "eval.max_completion_tokens=48", "eval.points=1", "save.every=1"]
SAME = ["problem_id", "index", "draft_text", "draft_correct", "challenge_text", "challenge_correct"]
LAUNCHERS = {1: ["-m"], 2: ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]}


def words(out: Path) -> list[str]:
    return [str(ROOT / "configs" / "tabletop" / "agon.yaml"), *SIZES, "--out", str(out), "--name", "run"]


def train(out: Path, processes: int, *given: str) -> None:
    command = [sys.executable, *LAUNCHERS[processes], "agon", "train", *(given or words(out))]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


def bouts(run: Path) -> list[tuple[Any, ...]]:
    rows = read_bouts(run, ["step", *SAME]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "steps.jsonl").open()]


def norms(run: Path) -> list[float]:
    return [policy["grad_norm"] for record in records(run) for policy in record["update"].values()]


SLOW_START = """
import json, sys, time
from pathlib import Path
from agon.config import load_config
from agon.engine.scripted import ScriptedSampler
from agon.engine.trl import learner
from agon.engine.vllm.door import Vllm
from agon.training import machines

waits, starts = [], []

def timed(work, times):
    def call(*args):
        began = time.time()
        try:
            return work(*args)
        finally:
            times.append((began, time.time()))
    return call

def start(*args):
    time.sleep(6)
    return ScriptedSampler(lambda request: "")

learner.gather_objects = timed(learner.gather_objects, waits)
Vllm.sampler = timed(start, starts)
built = machines.build(load_config(sys.argv[1], ["sampler.engine=vllm", "verifier=math"]), 1)
assert built.learner.gather(built.draws) == [True, False]
Path(sys.argv[2], f"{built.learner.rank}.json").write_text(json.dumps([waits, starts]))
"""


@pytest.mark.slow
def test_no_process_waits_in_a_collective_while_engines_start(tmp_path: Path) -> None:
    """On a GPU a collective is a kernel that spins, beside an engine that compiles and measures its own."""
    script = tmp_path / "start.py"
    script.write_text(SLOW_START)
    command = [sys.executable, *LAUNCHERS[2][:-1], str(script), str(ROOT / "configs" / "tabletop" / "agon.yaml")]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*command, str(tmp_path)], env=quiet, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (_, starts), (waits, none) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    [(began, ended)] = starts
    assert none == [], "the first process draws for both"
    assert len(waits) >= 2
    assert max(min(end, ended) - max(start, began) for start, end in waits) < 3, "seconds inside one, of six"


@pytest.mark.slow
def test_two_processes_also_with_a_base_in_parts_make_the_run_of_one_and_go_on_where_it_stopped(tmp_path: Path) -> None:
    train(tmp_path / "one", 1)
    train(tmp_path / "two", 2)
    one, two = tmp_path / "one" / "run", tmp_path / "two" / "run"
    assert bouts(two) == bouts(one)
    assert norms(two) == pytest.approx(norms(one), rel=1e-3)
    assert (two / "points.json").read_text() == (one / "points.json").read_text()

    whole = (two / "steps.jsonl").read_bytes()
    train(tmp_path / "split", 2, *words(tmp_path / "split"), "train.shard=base")
    assert (tmp_path / "split" / "run" / "steps.jsonl").read_bytes() == whole
    for step in ("step_000002", "step_000003"):
        (two / "checkpoints" / step / "MANIFEST.json").write_text("damaged")
    train(tmp_path, 2, str(two), "--resume")
    assert (two / "steps.jsonl").read_bytes() == whole
