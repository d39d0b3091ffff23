"""`agon train`: train a pair, or resume a run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, json_argument, say_waiting

if TYPE_CHECKING:
    from agon.rundir import RunDir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser, "a YAML file, or with --resume a run directory")
    parser.add_argument("--name", help="name of the run; by default made of arm, model and seed")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs live (default: runs)")
    parser.add_argument("--resume", action="store_true", help="resume the run if it exists, exactly where it stopped")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the run reached its end, 130 when it was interrupted and saved."""
    say_waiting(f"loading {args.config}")
    from agon.training.run import train

    where = {"name": args.name, "out": args.out, "resume": args.resume}
    run = train(args.config, *args.overrides, **where, show="json" if args.json else "auto")
    print("\n".join(closing(run)), file=sys.stderr)
    return 0


def closing(run: RunDir) -> list[str]:
    """What came of a run: where the pair is, whether dev moved, what looks wrong, and what to type next."""
    from agon.eval.consent import to_name, words
    from agon.rundir.health import dev_change, symptoms

    best = run.points and run.config.save.pair == "best"
    change = dev_change(run.points)
    rose = f"; {change}" if change and change.rose else ""
    found = symptoms(run.steps.records(), run.points, ended=True, base=run.config.model.name)
    lines = [f"done: {run.path}/pair holds the {'best pair on dev' if best else 'last pair'}{rose}"]
    lines += [f"warning: {str(symptom).replace('RUN', str(run.path))}" for symptom in found]
    named = words(to_name(run.config, run.manifest.data.hashes))
    return [*lines, f"next: agon eval {run.path}{named}   agon view {run.path}   agon report {run.path}"]
