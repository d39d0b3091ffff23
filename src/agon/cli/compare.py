"""`agon compare`: results against each other, in plain words."""

from __future__ import annotations

import argparse
from pathlib import Path

from agon.cli.parser import json_argument, print_json
from agon.errors import InputError, RunDirError, install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = "files that `agon eval` wrote, or runs (as they deploy, on held_out); the first is the reference"
    parser.add_argument("results", metavar="RESULT", nargs="+", type=Path, help=help)
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison of the first result with each of the others."""
    from importlib.util import find_spec

    if find_spec("scipy") is None:
        raise InputError("scipy is not installed", fix=install("eval"))
    from agon.eval.compare import compare
    from agon.eval.result import read_result
    from agon.eval.verdicts import in_markdown, plain

    found = compare([read_result(_file(path)) for path in args.results])
    if args.json:
        print_json(found.as_dict())
    else:
        print(in_markdown(found) if args.markdown else plain(found))
    return 0


def _file(path: Path) -> Path:
    """The file of a result; of a run, the one that stands for its arm."""
    if not path.is_dir():
        return path
    from agon.config import load
    from agon.config.game import game_of
    from agon.eval.systems import headline

    if not (path / "config.yaml").is_file():
        found = sorted(str(file) for file in path.rglob("*.json"))[:3]
        raise RunDirError(f"{path} is not a run", fix=f"name a result in it, such as {', '.join(found) or 'NAME.json'}")
    wanted = path / "evals" / "held_out" / f"{headline(game_of(load(path / 'config.yaml')))}.json"
    if not wanted.is_file():
        raise RunDirError(f"{path} has no {wanted.relative_to(path)}", fix=f"evaluate it first: agon eval {path}")
    return wanted
