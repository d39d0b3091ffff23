"""`agon view`: bouts side by side in one self-contained HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import say_waiting

if TYPE_CHECKING:
    from agon.report.rows import StepRange


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    help = "a run directory, a parquet file of bouts, or a result of `agon eval`"
    parser.add_argument("source", type=Path, metavar="RUN|RESULT", help=help)
    help = "where the page goes (default: match.html in the run, or beside the file)"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)
    parser.add_argument("--steps", metavar="FIRST:LAST", help="keep these steps only, for a run that is very long")


def default_page(source: Path, steps: StepRange | None) -> Path:
    """Where the page of a source goes; that of some steps does not replace that of all."""
    part = f"-{steps.name}" if steps else ""
    return source / f"match{part}.html" if source.is_dir() else source.with_name(f"{source.stem}{part}.html")


def run(args: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    say_waiting(f"reading {args.source}")
    from agon.formatting import show_hidden
    from agon.report.rows import StepRange, open_source
    from agon.report.viewer import write_viewer

    steps = StepRange.parse(args.steps) if args.steps else None
    path = write_viewer(open_source(args.source, steps), args.out or default_page(args.source, steps)).path
    print(f"{show_hidden(str(path))}  ({path.stat().st_size / 1e6:.1f} MB; open it in a browser, it needs no network)")
    return 0
