"""The arms of the demo: what each trains and measures, and how they run side by side, a process each.

A and B start from the adapters of the *halves* world (docs/tabletop.md): each was taught facts that the other was not.
GRPO starts from A's. Every arm draws the same number of rollouts per problem.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.errors import RunError

STEPS, HELD_OUT = 16, 120
SETTINGS = (
    *("model.name=agon:halves", "model.init.a=agon:halves/a", "model.init.b=agon:halves/b"),
    *("data.dev.take=32", f"data.held_out.take={HELD_OUT}", "game.group_size=4", "train.problems_per_step=16"),
    *(f"train.max_steps={STEPS}", "train.learning_rate=2e-3", "train.tokens_per_pass=8192"),
    *("train.max_completion_tokens=48", "train.max_peek_tokens=48", "eval.max_completion_tokens=48", "save.every=100"),
)
"""What is different from the tabletop recipe: the world, fewer and shorter steps, and a rate at which they show."""
PAIR = ("cascade", "a", "b", "self-cascade", "self-cascade-b")
POLL = 0.5
"""Seconds between two looks at the progress."""


@dataclass(frozen=True, slots=True)
class DemoArm:
    """An arm of the demo: what it measures after training, and before."""

    name: str
    suffix: str
    """Behind the name of the demo's folder; the pair itself has none."""
    after: Sequence[str]
    before: Sequence[str] = ()
    points: int = 0

    def folder(self, root: Path) -> Path:
        """Its run directory."""
        return root.with_name(root.name + self.suffix)

    def work(self, root: Path, seed: int) -> None:
        """Train, then measure on held-out problems; shows nothing."""
        from importlib.resources import as_file, files

        from agon.eval.run import evaluate
        from agon.training.run import train

        path = self.folder(root)
        words = (*SETTINGS, f"arm={self.name}", f"eval.points={self.points}", f"train.seed={seed}")
        with as_file(files("agon") / "recipes" / "tabletop.yaml") as recipe:
            run = train(recipe, *words, out=path.parent, name=path.name, show="nothing")
        evaluate(run, system=self.after, show="nothing")
        if self.before:
            evaluate(run, system=self.before, step=0, show="nothing")

    def progress(self, root: Path) -> str:
        """How far it is, from its files."""
        path = self.folder(root)
        steps = _lines(path / "steps.jsonl")
        if not steps:
            return "loading"
        if steps < STEPS:
            return f"step {steps}/{STEPS}"
        answers = sum(_lines(file) for file in path.glob("evals/*/*.jsonl"))
        return f"answer {answers}/{self.answers}"

    @property
    def answers(self) -> int:
        """How many it gives on held-out problems; a cascade is measured in both directions."""
        return HELD_OUT * sum(2 if system == "cascade" else 1 for system in (*self.after, *self.before))


ARMS = (
    DemoArm("agon", "", after=(*PAIR, "base"), before=PAIR, points=1),
    DemoArm("grpo", "-grpo", after=("a", "self-cascade")),
    DemoArm("plain-pair", "-plain-pair", after=PAIR),
)


def run_arms(root: Path, seed: int, show: Callable[[str], None]) -> None:
    """Run every arm to its end, side by side; `show` gets a line of progress now and then."""
    root.parent.mkdir(parents=True, exist_ok=True)
    running = {arm: _start(arm, root, seed) for arm in ARMS}
    try:
        while any(process.poll() is None for process in running.values()):
            time.sleep(POLL)
            show("  ".join(f"{arm.name} {arm.progress(root)}" for arm in ARMS))
    finally:
        for process in running.values():
            process.terminate() if process.poll() is None else None
    for arm, process in running.items():
        if process.wait():
            log = _log(arm, root)
            fix = f"see {log} and `agon doctor`, then run `agon demo` again: it takes a new name"
            raise RunError(f"{arm.name} of the demo failed: {_last(log)}", fix=fix)


def _start(arm: DemoArm, root: Path, seed: int) -> subprocess.Popen[bytes]:
    """One process, one thread and one GPU if there are any: three arms share two cores."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    words = [sys.executable, "-m", "agon.cli.demo_arm", arm.name, str(root), str(seed)]
    with _log(arm, root).open("wb") as log:
        return subprocess.Popen(words, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _log(arm: DemoArm, root: Path) -> Path:
    return root.with_name(f"{arm.folder(root).name}.log")


def _lines(file: Path) -> int:
    try:
        return file.read_bytes().count(b"\n")
    except OSError:
        return 0


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "no message"
