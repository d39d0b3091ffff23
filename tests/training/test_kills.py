"""`kill -9` a training run again and again and resume it each time: its files equal those of a run that nobody touched.

Some kills fall at random moments, some inside the write of a checkpoint. On transformers everything is equal bit for
bit: adapters, optimizer, schedule, `steps.jsonl`, every bout and evaluation point. On vLLM the last bits of a log-prob
depend on what else is in the batch: every bout must be equal, and adapters nearly.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agon.rundir import RunDir, read_bouts
from agon.rundir.checkpoint import folders
from agon.types import Policy

RECIPE = Path(__file__).resolve().parents[2] / "src" / "agon" / "recipes" / "tabletop.yaml"
SMALL = (
    *("data.train.take=60", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2"),
    *("game.group_size=2", "train.tokens_per_pass=80", "eval.points=2", "save.every=1", "save.keep=3"),
)
ON_VLLM = (
    *("sampler.engine=vllm", "sampler.max_model_len=512", "train.max_completion_tokens=48"),
    *("eval.max_completion_tokens=48", "train.learning_rate=5e-5"),  # larger: Adam makes whole steps of last bits
)
LIMIT = 900
CLOSE = 1e-5
PLAYED = ("step", "problem_id", "index", "draft_text", "draft_correct", "challenge_text", "challenge_correct")


@dataclass(frozen=True, slots=True)
class Killable:
    """A run that the command line trains in a process of its own."""

    path: Path
    words: Sequence[str]

    def start(self) -> subprocess.Popen[bytes]:
        where = ["--out", str(self.path.parent), "--name", self.path.name, "--resume"]
        command = [sys.executable, "-m", "agon", "train", str(RECIPE), *SMALL, *self.words, *where]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        with self.path.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)

    def finish(self) -> None:
        assert self.start().wait(LIMIT) == 0, self.path.with_suffix(".log").read_text()[-3000:]

    def saved(self) -> int:
        found = folders(self.path / "checkpoints")
        return int(found[0].name[5:]) if found else -1

    def kill(self, rng: random.Random, inside_save: bool, early: bool) -> bool:
        """Let it live until a chosen moment and kill it; False where it ended first.

        An early death may come before the first step; the others come after a checkpoint, or while one is written.
        """
        process, before, moment, born = self.start(), self.saved(), rng.uniform(0, 1), time.monotonic()
        while process.poll() is None and time.monotonic() < born + LIMIT:
            if early and time.monotonic() > born + 12 * moment:
                break
            writing = any((self.path / "checkpoints").glob(".tmp-*"))
            if self.saved() > before and (writing or not inside_save):
                time.sleep(0 if inside_save else moment)
                break
            time.sleep(0.001)
        if process.poll() is not None:
            assert process.returncode == 0, self.path.with_suffix(".log").read_text()[-3000:]
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True

    def kill_and_finish(self, kills: int, seed: int = 0) -> int:
        rng, done = random.Random(seed), 0
        while done < kills and self.kill(rng, inside_save=done % 4 == 1, early=done % 4 in (0, 2)):
            done += 1
        self.finish()
        return done


def fingerprint(run: Path) -> dict[str, str]:
    """Everything that must be equal, by name."""
    last = folders(run / "checkpoints")[0]
    files = {path.relative_to(last).as_posix(): path for path in last.rglob("*") if path.is_file()}
    files.pop("MANIFEST.json")  # it holds where timings.jsonl ended
    files |= {name: run / name for name in ("steps.jsonl", "points.json", "pair/agon.json")}
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return found | {"bouts": str(read_bouts(run).to_pylist())}


def weights(run: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    last = folders(run / "checkpoints")[0]
    files = {policy: load_file(last / policy.value / "adapter_model.safetensors") for policy in Policy}
    return {f"{policy.value} {name}": tensor for policy, state in files.items() for name, tensor in state.items()}


@pytest.mark.parametrize(
    ("steps", "kills"),
    [
        pytest.param(3, 2, marks=pytest.mark.contract),
        pytest.param(30, 20, marks=pytest.mark.nightly),
    ],
)
def test_a_run_killed_and_resumed_equals_one_that_was_not(steps: int, kills: int, tmp_path: Path) -> None:
    words = [f"train.max_steps={steps}"]
    whole, killed = Killable(tmp_path / "whole", words), Killable(tmp_path / "killed", words)
    whole.finish()
    assert killed.kill_and_finish(kills) == kills
    assert fingerprint(killed.path) == fingerprint(whole.path)
    assert len(RunDir.open(killed.path).steps.records()) == steps


@pytest.mark.nightly
def test_a_run_on_vllm_killed_and_resumed_plays_the_same_bouts(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    words = [*ON_VLLM, "train.max_steps=12"]
    whole, killed = Killable(tmp_path / "whole", words), Killable(tmp_path / "killed", words)
    whole.finish()
    assert killed.kill_and_finish(4) == 4
    played = [sorted(map(str, read_bouts(run.path, PLAYED).to_pylist())) for run in (whole, killed)]
    assert played[0] == played[1]
    one, two = weights(whole.path), weights(killed.path)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) <= CLOSE
