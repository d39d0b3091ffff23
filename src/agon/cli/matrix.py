"""`agon matrix`: arms x seeds at one matched budget, resumable, ending in one report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, json_argument, print_json, say_waiting
from agon.config.arms import ARMS, MAIN
from agon.errors import InputError, RunError

if TYPE_CHECKING:
    from agon.matrix.cells import MatrixCell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    arms = (
        f"methods, with commas; the first is the reference (default: {','.join(MAIN)}). Untrained ones: zero-shot, moa"
    )
    ablations = ", ".join(name for name in ARMS if name not in MAIN)
    parser.add_argument("--arms", default=",".join(MAIN), help=f"{arms}. Ablations: {ablations}")
    parser.add_argument("--seeds", default="0,1,2", help="seeds with commas (default: 0,1,2)")
    parser.add_argument("--slots", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("runs/matrix"), metavar="DIR", help="default: runs/matrix")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every cell is done, 1 when one failed, 130 when interrupted: the same command resumes."""
    from agon.matrix.cells import cells
    from agon.rundir.files import locked
    from agon.verify import check_verifier

    if args.slots < 1:
        raise InputError("--slots must be at least 1", fix="leave it out, or name the number of runs at a time")
    say_waiting(f"reading {args.config}")
    made = cells(Path(args.config), args.overrides, _list(args.arms), _seeds(args.seeds), args.out)
    config = made[0].config  # verifier and sandbox are the same for every cell
    check_verifier(config.verifier, config.sandbox.settings())
    args.out.mkdir(parents=True, exist_ok=True)
    with locked(args.out / ".lock"):
        return _run(args, made)


def _run(args: argparse.Namespace, made: list[MatrixCell]) -> int:
    import asyncio
    from importlib.util import find_spec

    from agon.interrupt import Interrupt, Interrupted
    from agon.matrix.local import run as run_cells
    from agon.report.matrix_report import CellStatus, write_matrix_report

    failures: list[str] = []
    with asyncio.Runner() as runner, Interrupt() as interrupt:
        try:
            failures = runner.run(interrupt.watching(run_cells(made, args.slots, _say)))
        except Interrupted:
            _say("stopped; every run is saved, and the same command resumes")
            return 130
    cells = [CellStatus(c.name, c.arm, c.seed, c.trains, c.folder, c.result, done=not c.missing()) for c in made]
    report = write_matrix_report(cells, args.out, with_figures=find_spec("matplotlib") is not None)
    print_json(report.model_dump(mode="json")) if args.json else print(report)
    _say(f"written to {args.out / 'report.md'} and report.json")
    if failures:
        raise RunError(f"{len(failures)} of {len(made)} runs failed", fix="see their logs, then run the same again")
    return 0


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _seeds(text: str) -> list[int]:
    try:
        return [int(word) for word in _list(text)]
    except ValueError as error:
        raise InputError(f"cannot parse --seeds {text}", fix="write --seeds 0,1,2") from error


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
