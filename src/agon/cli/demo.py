"""`agon demo`: train a pair on a CPU in a minute or two, watch it, evaluate it.

It is `agon.train` on the tabletop recipe, made smaller by SMALLER, and then `agon.evaluate`; nothing is simulated.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from shlex import quote

from agon.errors import InputError, install

NEEDED = ("torch", "transformers", "peft", "trl", "accelerate", "scipy")
SMALLER = (
    *(f"data.{split}.options.difficulty=3" for split in ("train", "dev", "held_out")),
    "data.dev.take=64",
    "data.held_out.take=100",
    "game.group_size=4",
    "train.problems_per_step=16",
    "train.max_steps=24",
    "train.learning_rate=4e-3",
    "train.max_completion_tokens=64",
    "train.max_peek_tokens=48",
    "eval.max_completion_tokens=64",
    "eval.points=2",
)
"""Shorter chains, more problems with fewer rollouts each, and a rate at which so few steps show."""
STORY = """\
Two adapters, A and B, over one frozen base of a million parameters. At every step one drafts; the other reads the
draft's summary, its answer withheld, and earns a bonus where the draft was wrong; then they swap. No download.
A minute or two on two free cores; the first numbers take a quarter of a minute.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs live (default: runs)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the run (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Train, evaluate, and say what to type next; 0 when both came to their end."""
    _check()
    path = _free(args.out / "demo")
    print(STORY, flush=True)
    _train(path, args.seed)
    print("\nheld-out problems, never seen in training:", file=sys.stderr)
    from agon.eval.run import evaluate

    print(f"{evaluate(path)}\n\n{closing(path)}")
    return 0


def _check() -> None:
    from importlib.util import find_spec

    if missing := [name for name in NEEDED if find_spec(name) is None]:
        message = f"the demo trains a real pair and needs {', '.join(missing)}"
        raise InputError(message, fix=install("train", "eval", "plot"))


def _train(path: Path, seed: int) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from importlib.resources import as_file, files

    from agon.training.run import train

    with as_file(files("agon") / "recipes" / "tabletop.yaml") as recipe:
        train(recipe, *SMALLER, f"train.seed={seed}", out=path.parent, name=path.name)


def closing(path: Path) -> str:
    """What changed on dev, and what to type next."""
    from agon.report.collect import read_run
    from agon.report.curve import curve

    points = curve(read_run(path))
    first, last = points[0], points[-1]
    moved = f"dev reward of the cascade: {first.reward:.2f} at step {first.step}, {last.reward:.2f} at step {last.step}"
    return f"""\
{moved} (0 to 2.5; {last.n} trials in both directions, one seed).
It shows that the machinery learns. It says nothing about large models.

Next:
{commands(path)}"""


def commands(path: Path) -> str:
    """What can be typed, or pasted, next."""
    named = {
        f"agon view {quote(str(path))}": "every bout side by side, in one HTML page",
        f"agon report {quote(str(path))}": "tables and figures",
        f"agon diagnose {quote(str(path))}": "which reward terms taught something",
        "agon init tabletop": "a config of your own to start from",
    }
    width = max(map(len, named))
    return "\n".join(f"  {command:<{width}}  # {about}" for command, about in named.items())


def _free(path: Path) -> Path:
    """The first name like `path` that is not taken: a run is never overwritten."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
