"""`agon demo`: GRPO and a pair learn on as many samples, side by side; their curves, and a table with one conclusion.

It is `agon train` and `agon eval` on a small recipe; nothing is simulated.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from shlex import quote

from agon.errors import InputError, install

NEEDED = ("torch", "transformers", "peft", "trl", "accelerate", "scipy")
STORY = """\
A model of a million parameters does arithmetic, most of it wrongly. Two methods train it, each on a core and on as many
samples. GRPO trains one adapter. The pair are two adapters, A and B: one drafts, the other reads the draft's summary,
its answer withheld, and earns a bonus where the draft was wrong; then they swap. No download.
About two minutes on two free cores. The curves are rates of right answers on dev problems.
"""
CAVEAT = (
    "One seed, a base of a million parameters, arithmetic: it shows a mechanism, and says nothing about large models."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs live (default: runs)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the runs (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Train and measure all arms, show the table, write the viewer, and say what to type next."""
    _check()
    path = _free(args.out / "demo")
    if path.name != "demo":
        print(f"{args.out / 'demo'} already exists: training again, as {path}\n")
    print(STORY, flush=True)
    from agon.interrupt import Interrupted
    from agon.matrix.demo import Curves, run_arms

    try:
        run_arms(path, args.seed, Curves())
    except Interrupted:
        print("stopped; `agon demo` starts again under a new name", file=sys.stderr)
        return 130
    print("\n".join(closing(path)))
    return 0


def closing(path: Path) -> list[str]:
    """The table, what follows from it, the page to open, and what to type next."""
    from agon.matrix.demo import ARMS
    from agon.report.demo_table import DemoResults, conclusion, demo_table
    from agon.report.rows import open_source
    from agon.report.viewer import write_viewer

    grpo, pair = (arm.folder(path) for arm in ARMS)
    results = DemoResults.read(grpo, pair)
    page = write_viewer(open_source(pair), pair / "match.html")
    return [
        "",
        f"{results.problems} held-out problems, never seen in training; tokens are those of all passes of one answer",
        "",
        demo_table(results),
        "",
        *textwrap.wrap(conclusion(results), 110),
        CAVEAT,
        "",
        f"Written: {page.path}",
        "Next:",
        commands(path),
    ]


def commands(path: Path) -> str:
    """What can be typed, or pasted, next."""
    named = {
        f"agon ask {quote(str(path))} --held-out 0": "put a problem to the pair, and watch both stages write",
        f"agon report {quote(str(path))}": "one page: result, curves, health",
        f"agon report {quote(str(path.parent))}": "both methods on one page, with their curves",
        f"agon diagnose {quote(str(path))}": "which reward terms taught something",
        "agon init tabletop": "a config of your own to start from",
    }
    width = max(map(len, named))
    return "\n".join(f"  {command:<{width}}  # {about}" for command, about in named.items())


def _check() -> None:
    from importlib.util import find_spec

    def missing(name: str) -> bool:
        try:
            return find_spec(name) is None
        except ValueError:  # a module that was taken away
            return True

    if absent := [name for name in NEEDED if missing(name)]:
        message = f"the demo trains real policies and needs {', '.join(absent)}"
        raise InputError(message, fix=install("train", "eval", "plot"))


def _free(path: Path) -> Path:
    """The first name like `path` that is not taken, by any of its arms: a run is never overwritten."""
    from agon.matrix.demo import ARMS

    number, found = 1, path
    while any(arm.folder(found).exists() for arm in ARMS):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
