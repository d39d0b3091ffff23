"""`agon view`: bouts of a run, or groups of any GRPO log, side by side in one self-contained HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.columns import column_arguments, columns_of
from agon.cli.parser import say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.report.rows import StepRange


NAMED = "name a run directory, a result of `agon eval` (.json), or a log: .parquet, .jsonl, or a folder of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    help = "a run directory, bouts, or a result of `agon eval`; or logs of TRL, verl and others: files, folders"
    parser.add_argument("sources", type=Path, nargs="+", metavar="RUN|RESULT|LOG", help=help)
    help = "where the page goes (default: a run's into the run, a result's beside it, a log's into the current folder)"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)
    parser.add_argument("--steps", metavar="FIRST:LAST", help="keep these steps only, of a run or log that is long")
    column_arguments(parser, texts=True)


def match_page(source: Path, steps: StepRange | None) -> Path:
    """Where the page of a run or result goes; that of some steps does not replace that of all."""
    part = f"-{steps.name}" if steps else ""
    return source / f"match{part}.html" if source.is_dir() else source.with_name(f"{source.stem}{part}.html")


def log_page(sources: Sequence[Path], steps: StepRange | None) -> Path:
    """Where the page of a log goes: here, since others read the folder of a log."""
    part = f"-{steps.name}" if steps else ""
    return Path(f"{'rollouts' if len(sources) > 1 or sources[0].is_dir() else sources[0].stem}{part}.html")


def run(args: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    say_waiting(f"reading {args.sources[0]}")
    from agon.diagnose.lines import is_foreign, without_pages
    from agon.formatting import show_hidden
    from agon.report.rows import StepRange

    args.sources = without_pages(args.sources)
    steps = StepRange.parse(args.steps) if args.steps else None
    path = _log(args, steps) if any(map(is_foreign, args.sources)) else _bouts(args, steps)
    print(f"{show_hidden(str(path))}  ({path.stat().st_size / 1e6:.1f} MB; open it in a browser, it needs no network)")
    return 0


def _bouts(args: argparse.Namespace, steps: StepRange | None) -> Path:
    from agon.diagnose.lines import JSON_FILES
    from agon.report.rows import open_source
    from agon.report.viewer import write_viewer

    odd = [path for path in args.sources if path.is_file() and path.suffix not in {".parquet", *JSON_FILES}]
    if odd:
        raise InputError(f"{odd[0]} is not a run, a result or a log", fix=NAMED)
    if len(args.sources) > 1:
        fix = "name one of them; for many runs: agon report RUN..."
        raise InputError("bouts of one run at a time can be shown", fix=fix)
    out = args.out or match_page(args.sources[0], steps)
    return write_viewer(open_source(args.sources[0], steps), out).path


def _log(args: argparse.Namespace, steps: StepRange | None) -> Path:
    from agon.diagnose.rollouts import read_rollouts
    from agon.report.log_viewer import write_log_viewer

    rollouts = read_rollouts(args.sources, columns_of(args), steps.__contains__ if steps else None)
    return write_log_viewer(rollouts, args.out or log_page(args.sources, steps), args.scale)
