"""`agon compare`: compare results with paired tests, our own or files of per-problem results that others wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = (
        "files that `agon eval` wrote, or runs (as they deploy, on held_out); or files of per-problem results of "
        "lm-eval, inspect, verifiers, CSV or JSONL: FILE, NAME=FILE, or NAME=FILE,FILE for seeds. The first is the "
        "reference"
    )
    parser.add_argument("results", metavar="RESULT", nargs="+", help=what)
    parser.add_argument("--metric", metavar="NAME", help="the score to compare, of a file with several")
    parser.add_argument("--where", metavar="COLUMN=VALUE", action="append", help="only these rows: filter=strict-match")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison of the first result with each of the others."""
    say_waiting(f"reading {args.results[0]}")
    from agon.eval.compare import compare

    if foreign := [given for given in args.results if _is_file_of_others(given)]:
        if missing := [given for given in args.results if given not in foreign and not Path(given).exists()]:
            fix = f"name files that exist, as {foreign[0]} does"
            raise InputError(f"{missing[0]} does not exist", fix=fix)
        if ours := [given for given in args.results if given not in foreign]:
            fix = "compare results of agon eval with each other, and files of others with each other"
            raise InputError(f"{ours[0]} is not a file of per-problem results, as {foreign[0]} is", fix=fix)
        from agon.eval.compare_files import compare_files

        comparison = compare_files(args.results, args.metric, _conditions(args.where))
    else:
        comparison = compare(*args.results)
    if args.json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print(comparison.markdown() if args.markdown else comparison)
    return 0


def _is_file_of_others(given: str) -> bool:
    """Whether an argument names files that `agon eval` did not write."""
    from agon_lens.files import is_foreign

    path = Path(given)
    if not path.exists() and "=" in given:
        path = Path(given.partition("=")[2])
    if not path.exists():
        path = Path(str(path).partition(",")[0])
    return is_foreign(path)


def _conditions(where: list[str] | None) -> dict[str, str]:
    parts = [each.partition("=") for each in where or ()]
    if wrong := [name for name, equals, _ in parts if not equals]:
        raise InputError(f"cannot parse --where {wrong[0]}", fix="write --where filter=strict-match")
    return {name: value for name, _, value in parts}
