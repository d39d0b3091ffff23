"""`agon report`: the tables and figures of the paper, from any set of runs."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from agon.errors import InputError, install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run directories, or folders of runs")
    help = "folder of the page and its figures (default: report in the run, or in the current folder)"
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=help)
    parser.add_argument("--no-figures", action="store_true", help="tables only; needs no matplotlib")


def run(args: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    if find_spec("scipy") is None:
        raise InputError("scipy is not installed", fix=install("eval", "plot"))
    from agon.formatting import show_hidden
    from agon.report.collect import collect
    from agon.report.document import write_report

    runs = collect(args.runs)
    out = args.out or (args.runs[0] / "report" if len(args.runs) == 1 else Path("report"))
    page = write_report(runs, out, with_figures=not args.no_figures)
    beside = "" if args.no_figures else "; figures beside it as SVG and PNG"
    print(f"{show_hidden(str(page))}  ({len(runs)} run{'s' if len(runs) > 1 else ''}{beside})")
    for note in (note for run in runs for note in run.notes):
        print(f"skipped: {show_hidden(note)}")
    return 0
