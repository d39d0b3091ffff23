"""`agon matrix`: arms x seeds at one matched budget, resumable, ending in one report."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.parser import config_arguments, json_argument, print_json, say_waiting
from agon.config.arms import ARMS, MAIN
from agon.errors import InputError, RunError

if TYPE_CHECKING:
    from agon.matrix.cells import MatrixCell

Launch = Callable[["list[MatrixCell]", int, Callable[[str], None]], Coroutine[Any, Any, "list[str]"]]
"""Does what is missing of some cells, so many at a time, and reports; returns what failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    arms = (
        f"methods, with commas; the first is the reference (default: {','.join(MAIN)}). Untrained ones: zero-shot, moa"
    )
    ablations = ", ".join(name for name in ARMS if name not in MAIN)
    parser.add_argument("--arms", default=",".join(MAIN), help=f"{arms}. Ablations: {ablations}")
    parser.add_argument("--seeds", default="0,1,2", help="seeds with commas (default: 0,1,2)")
    parser.add_argument(
        "--launcher",
        choices=("local", "slurm", "ray"),
        default="local",
        help="run here, write an array job, or run on the nodes of a Ray cluster",
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="with --launcher ray: the cluster, or local")
    parser.add_argument("--slots", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("runs/matrix"), metavar="DIR", help="default: runs/matrix")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every cell is done, 1 when one failed, 130 when interrupted: the same command resumes."""
    from agon.matrix.cells import cells
    from agon.rundir.lock import locked
    from agon.verify import check_verifier

    if args.slots < 1:
        raise InputError("--slots must be at least 1", fix="leave it out, or name the number of runs at a time")
    say_waiting(f"reading {args.config}")
    made = cells(Path(args.config), args.overrides, _list(args.arms), _seeds(args.seeds), args.out)
    config = made[0].config  # verifier and sandbox are the same for every cell
    check_verifier(config.verifier, config.sandbox.settings() if args.launcher == "local" else None)
    work = _launcher(args, made[0])
    args.out.mkdir(parents=True, exist_ok=True)
    with locked(args.out / ".lock"):
        if args.launcher == "slurm" and any(cell.missing() for cell in made):
            return _slurm(args, made)
        return _run(args, made, work)


def _launcher(args: argparse.Namespace, cell: MatrixCell) -> Launch:
    """What runs cells: processes here, or tasks on a cluster, which is joined now."""
    if (args.launcher == "ray") != (args.address is not None):
        fix = "write both, or neither: --launcher ray --address HOST:PORT"
        raise InputError("--address is the cluster of --launcher ray, which needs it", fix=fix)
    if args.launcher != "ray":
        from agon.matrix.local import run

        return run
    from agon.cluster.connection import connect
    from agon.matrix.on_nodes import run as run_on_nodes

    cluster = connect(args.address, cell.config.sampler.network)
    cluster.check_room(1, 1, cell.gpus)
    return lambda made, slots, say: run_on_nodes(made, slots, say, cluster)


def _run(args: argparse.Namespace, made: list[MatrixCell], work: Launch) -> int:
    import asyncio
    from importlib.util import find_spec

    from agon.interrupt import Interrupt, Interrupted
    from agon.report.matrix_report import CellStatus, write_matrix_report

    failures: list[str] = []
    with asyncio.Runner() as runner, Interrupt() as interrupt:
        try:
            failures = runner.run(interrupt.watching(work(made, args.slots, _say)))
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


def _slurm(args: argparse.Namespace, made: list[MatrixCell]) -> int:
    from agon.matrix.slurm import script
    from agon.rundir.files import write

    again = ["agon", "matrix", args.config, *args.overrides, "--arms", args.arms, "--seeds", args.seeds]
    again += ["--launcher", "slurm", "--slots", str(args.slots), "--out", str(args.out)]
    (args.out / "logs").mkdir(exist_ok=True)
    path = args.out / "matrix.sbatch"
    write(path, script(made, args.slots, shlex.join(again)).encode())
    print(path)
    _say(f"{sum(bool(cell.missing()) for cell in made)} of {len(made)} runs are left; read it, then: sbatch {path}")
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
