"""`agon view`: bouts side by side in one self-contained HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    help = "a run directory, a parquet file of bouts, or a result of `agon eval`"
    parser.add_argument("source", type=Path, metavar="RUN|RESULT", help=help)
    help = "where the page goes (default: report.html in the run, or beside the file)"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)
    parser.add_argument("--steps", metavar="FIRST:LAST", help="keep these steps only, for a run that is very long")


def run(args: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    from agon.formatting import show_hidden
    from agon.report.rows import StepRange, open_source
    from agon.report.viewer import write_viewer

    source = open_source(args.source, StepRange.parse(args.steps) if args.steps else None)
    out = args.out or (args.source / "report.html" if args.source.is_dir() else args.source.with_suffix(".html"))
    path = write_viewer(source, out)
    print(f"{show_hidden(str(path))}  ({path.stat().st_size / 1e6:.1f} MB; open it in a browser, it needs no network)")
    return 0
