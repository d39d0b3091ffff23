"""The two methods of the demo: what each trains and measures, how they run side by side, and their curves.

Both start from the same tiny base and draw the same number of rollouts per problem.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from agon.errors import RunError
from agon.eval.systems import deployed_parts
from agon.formatting import percent
from agon.interrupt import Interrupt
from agon.matrix.child import last_words, run_command
from agon.rundir.directory import read_points
from agon.rundir.records import Point

STEPS, POINTS, HELD_OUT = 36, 4, 200
SETTINGS = (
    *("data.dev.take=100", f"data.held_out.take={HELD_OUT}", f"train.max_steps={STEPS}", "train.learning_rate=5e-3"),
    *("train.max_completion_tokens=64", "eval.max_completion_tokens=64", "train.tokens_per_pass=8192"),
    *(f"eval.points={POINTS}", "eval.against_first=never", "save.every=100"),
)
"""What is different from the tabletop recipe: fewer and shorter steps, and a rate at which they show."""
UP, ERASE = "\x1b[A\r", "\x1b[K"
"""To the start of the line above; clear the rest of a line."""
BARS = "▁▂▃▄▅▆▇█"
POLL = 0.5
"""Seconds between two looks at the progress."""


@dataclass(frozen=True, slots=True)
class DemoArm:
    """A method of the demo, and what it measures on held-out problems before and after training."""

    arm: str
    title: str
    suffix: str
    """Behind the name of the demo's folder; the pair itself has none."""
    systems: Sequence[str]

    def folder(self, root: Path) -> Path:
        """Its run directory."""
        return root.with_name(root.name + self.suffix)

    def commands(self, root: Path, recipe: Path, seed: int) -> list[list[str]]:
        """What trains it, then measures it after training and before."""
        path = self.folder(root)
        words = (*SETTINGS, f"arm={self.arm}", f"train.seed={seed}")
        train = ["agon", "train", str(recipe), *words, "--out", str(path.parent), "--name", path.name]
        measure = ["agon", "eval", str(path), "--system", ",".join(self.systems)]
        return [train, measure, [*measure, "--step", "0"]]

    def progress(self, root: Path) -> Progress:
        """How far it is, from its files."""
        path = self.folder(root)
        answers = sum(_lines(file) for file in path.glob("evals/*/*.jsonl"))
        return Progress(self.title, _lines(path / "steps.jsonl"), read_points(path / "points.json"), answers)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a method is, and its curve on dev."""

    title: str
    steps: int
    points: Sequence[Point]
    answers: int
    """To held-out problems, after training."""


ARMS = (
    DemoArm("grpo", "GRPO", "-grpo", systems=("a",)),
    DemoArm("agon", "pair", "", systems=("a", "b", "cascade")),
)


def run_arms(root: Path, seed: int, show: Callable[[Sequence[Progress]], None]) -> None:
    """Run both methods to their end, side by side; `show` sees now and then how far they are."""
    # one thread and one GPU, if there are any: each method has a core
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    with as_file(files("agon") / "recipes" / "tabletop.yaml") as recipe:
        commands = {arm: arm.commands(root, recipe, seed) for arm in ARMS}
        with asyncio.Runner() as runner, Interrupt() as interrupt:
            runner.run(interrupt.watching(_side_by_side(commands, root, environment, show)))


async def _side_by_side(
    commands: Mapping[DemoArm, Sequence[Sequence[str]]],
    root: Path,
    environment: Mapping[str, str],
    show: Callable[[Sequence[Progress]], None],
) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_run_arm(arm, commands[arm], root, environment)) for arm in commands]
        while not all(task.done() for task in running):
            await asyncio.sleep(POLL)
            show([arm.progress(root) for arm in commands])


async def _run_arm(arm: DemoArm, commands: Sequence[Sequence[str]], root: Path, environment: Mapping[str, str]) -> None:
    """Its commands, one after the other."""
    log = root.with_name(f"{arm.folder(root).name}.log")
    for words in commands:
        if await run_command(words, log, environment):
            fix = f"see {log} and `agon doctor`, then run `agon demo` again: it takes a new name"
            raise RunError(f"{arm.title} of the demo failed: {last_words(log)}", fix=fix)


def _lines(file: Path) -> int:
    try:
        return file.read_bytes().count(b"\n")
    except OSError:
        return 0


class Curves:
    """Both curves on stderr as they rise: redrawn in place on a terminal, a line per new point elsewhere."""

    def __init__(self) -> None:
        self.live, self.shown = sys.stderr.isatty(), 0
        self.began = time.monotonic()
        self._told: set[tuple[str, int]] = set()

    def __call__(self, methods: Sequence[Progress]) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns - 1  # a longer line would wrap, and stay
            lines = [curve_line(method)[:width] for method in methods]
            lines.append(f"{time.monotonic() - self.began:.0f} s")
            sys.stderr.write(UP * self.shown + "".join(f"{line}{ERASE}\n" for line in lines))
            self.shown = len(lines)
        else:
            for method in methods:
                for point in method.points:
                    if (method.title, point.step) not in self._told:
                        self._told.add((method.title, point.step))
                        told = f"{method.title} after {point.step} steps: {percent(rate(point), 1)} right on dev"
                        sys.stderr.write(f"{time.monotonic() - self.began:4.0f} s  {told}\n")
        sys.stderr.flush()


def curve_line(method: Progress) -> str:
    """`GRPO  ▂▃▅  24.0% 33.0% 51.0%  step 24 of 40`."""
    rates = [rate(point) for point in method.points]
    bars = "".join(BARS[min(int(value * len(BARS)), len(BARS) - 1)] for value in rates)
    done = f"step {method.steps} of {STEPS}" if method.steps < STEPS else f"{method.answers} held-out answers"
    return f"{method.title:<5} {bars:<{POINTS + 1}}  {' '.join(percent(value, 1) for value in rates)}  {done}"


def rate(point: Point) -> float:
    """Of a pair, the mean of both directions."""
    counts = [point.systems[name] for name in deployed_parts(point.systems)]
    return sum(each.correct for each in counts) / max(1, sum(each.n for each in counts))
