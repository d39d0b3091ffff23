"""`agon train`: train a pair, or resume a run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agon.cli.parser import config_arguments, json_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser, "a YAML file, or with --resume a run directory")
    parser.add_argument("--name", help="name of the run; by default made of arm, model and seed")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs live (default: runs)")
    parser.add_argument("--resume", action="store_true", help="resume the run if it exists, exactly where it stopped")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the run reached its end, 130 when it was interrupted and saved."""
    from agon.training.run import is_first_process, train

    where = {"name": args.name, "out": args.out, "resume": args.resume}
    run = train(args.config, *args.overrides, **where, show="json" if args.json else "auto")
    if not is_first_process():
        return 0
    which = "best pair on dev" if run.points and run.config.save.pair == "best" else "last pair"
    print(f"done: {run.path}/pair holds the {which}; evaluate it with: agon eval {run.path}", file=sys.stderr)
    return 0
