"""`agon runs`: what is here: state, step, score."""

from __future__ import annotations

import argparse
from dataclasses import asdict, astuple
from pathlib import Path

from agon.cli.parser import json_argument, print_json
from agon.errors import InputError

DEFAULT = Path("runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = "a folder of runs (default: runs)"
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT, metavar="DIR", help=help)
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """One line per run, the newest last."""
    from agon.formatting import show_hidden, table
    from agon.report.overview import overview

    if not args.folder.is_dir() and args.folder != DEFAULT:
        raise InputError(f"{args.folder} is not a folder", fix="name a folder of runs, such as: agon runs runs")
    runs = overview(args.folder)
    if args.json:
        print_json([asdict(one) for one in runs])
    elif not runs:
        print(f"no runs in {show_hidden(str(args.folder))}; start one: agon train CONFIG, or: agon demo")
    else:
        head = ("run", "arm", "base", "state", "steps", "dev", "before training", "held-out")
        print(table(head, [tuple(map(show_hidden, astuple(one))) for one in runs]))
    return 0
