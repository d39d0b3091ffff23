"""`agon compare`: compare results with paired tests."""

from __future__ import annotations

import argparse
from pathlib import Path

from agon.cli.parser import json_argument, print_json, say_waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "files that `agon eval` wrote, or runs (as they deploy, on held_out); the first is the reference"
    parser.add_argument("results", metavar="RESULT", nargs="+", type=Path, help=what)
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison of the first result with each of the others."""
    say_waiting(f"reading {args.results[0]}")
    from agon.eval.compare import compare

    comparison = compare(*args.results)
    if args.json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print(comparison.markdown() if args.markdown else comparison)
    return 0
