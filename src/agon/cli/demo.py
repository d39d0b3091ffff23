"""`agon demo`: base, GRPO and a pair at one budget, before and after, in one table with one conclusion.

It is `agon.train` and `agon.evaluate` on a small recipe, three arms side by side; nothing is simulated.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
import time
from pathlib import Path
from shlex import quote

from agon.errors import InputError, install

NEEDED = ("torch", "transformers", "peft", "trl", "accelerate", "scipy")
STORY = """\
Two adapters, A and B, over one frozen base of a million parameters; each was taught facts that the other was not.
At every step one drafts; the other reads the draft's summary, its answer withheld, and earns a bonus where the draft
was wrong; then they swap. Beside them train GRPO and a pair that never meets, on as many rollouts. No download.
About two minutes on two free cores.
"""
ERASE = "\r\x1b[K"
"""Back to the start of the line, and clear it."""
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
    from agon.matrix.demo import run_arms

    with Ticker() as ticker:
        run_arms(path, args.seed, ticker)
    print("\n".join(closing(path)))
    return 0


def closing(path: Path) -> list[str]:
    """The table, what follows from it, the page to open, and what to type next."""
    from agon.matrix.demo import ARMS
    from agon.report.collect import read_run
    from agon.report.demo_table import DemoResults, bonus_note, conclusion, demo_table
    from agon.report.headline import read_headline
    from agon.report.rows import open_source
    from agon.report.viewer import write_viewer

    pair, grpo, apart = (arm.folder(path) for arm in ARMS)
    results = DemoResults.read(pair, apart, grpo)
    n = len(results.means("agon", ("ab",)))
    page = write_viewer(open_source(pair), pair / "match.html")
    best = "" if page.best is None else f" (opens on its best conversion, bout {page.best})"
    head = f"{n} held-out problems, never seen in training; tokens are those of all passes of one answer"
    deployed = read_headline(pair, "cascade")
    said = [*textwrap.wrap(f"agon as deployed: {deployed}.", 110), ""] if deployed else []
    said += [*textwrap.wrap(conclusion(results), 110), ""]
    if (share := read_run(pair).bonus_bites) is not None:
        said += textwrap.wrap(bonus_note(share), 110)
    return [
        head,
        "",
        demo_table(results),
        "",
        *said,
        CAVEAT,
        "",
        f"Written: {page.path}{best}",
        "Next:",
        commands(path),
    ]


def commands(path: Path) -> str:
    """What can be typed, or pasted, next."""
    named = {
        f"agon ask {quote(str(path))} --held-out 0": "put a problem to the pair, and watch both stages write",
        f"agon report {quote(str(path))}": "one page: result, curves, health",
        f"agon report {quote(str(path.parent))}": "all arms on one page, compared",
        f"agon diagnose {quote(str(path))}": "which reward terms taught something",
        "agon init tabletop": "a config of your own to start from",
    }
    width = max(map(len, named))
    return "\n".join(f"  {command:<{width}}  # {about}" for command, about in named.items())


class Ticker:
    """Progress on stderr: one line that is replaced on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.began = self.last = time.monotonic()

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            print(ERASE, end="", file=sys.stderr, flush=True)

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        line = f"{now - self.began:4.0f} s  {line}"
        if self.live:
            width = shutil.get_terminal_size().columns - 1  # a longer line would wrap, and stay
            print(f"{ERASE}{line[:width]}", end="", file=sys.stderr, flush=True)
        elif now - self.last > 10:
            self.last = now
            print(line, file=sys.stderr, flush=True)


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
