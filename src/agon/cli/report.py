"""`agon report`: one HTML page about one run or many; without a run, a table of the runs that are here."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict, astuple
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError, install

if TYPE_CHECKING:
    from agon.report.run_story import RunStory


HERE = Path("runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = f"run directories, or folders of runs; without any, a table of the runs in {HERE}/"
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help=help)
    help = "folder of what is written (default: the run itself; of a folder of runs its report/; of several ./report)"
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=help)
    parser.add_argument(
        "--no-figures", action="store_true", help="leave out the paper's figures, which need matplotlib"
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page, the paper's tables and the CSV file, and print where they are; or list the runs."""
    if not args.runs:
        _list_runs(args.json)
        return 0
    if find_spec("scipy") is None:
        raise InputError("scipy is not installed", fix=install("eval", "plot"))
    say_waiting("reading runs")
    from agon.formatting import show_hidden
    from agon.report.collect import collect
    from agon.report.document import write_report
    from agon.report.html_page import PAGE, TABLE, results_csv, write_page
    from agon.report.run_story import RunStory
    from agon.rundir.files import write
    from agon.rundir.find import runs_in

    runs = collect(args.runs)
    stories = [RunStory.read(path) for given in args.runs for path in runs_in(given)]
    alone = args.runs[0] if len(args.runs) == 1 and len(stories) == 1 and not args.out else None
    folder = args.out or (args.runs[0] / "report" if len(args.runs) == 1 else Path("report"))
    figures = not args.no_figures and find_spec("matplotlib") is not None
    tables = write_report(runs, folder, with_figures=figures)
    write(folder / TABLE, results_csv(stories).encode("utf-8", "replace"))
    page = (alone or folder) / PAGE
    best = _write_bouts(alone) if alone else []
    write_page(stories, page, [*best, *links(stories, page, tables)])
    if args.json:
        skipped = [note for run in runs for note in run.notes]
        print_json({"page": str(page), "tables": str(tables), "csv": str(folder / TABLE), "skipped": skipped})
        return 0
    beside = f"the paper's tables: {show_hidden(str(tables))}, and a CSV file"
    print(f"{show_hidden(str(page))}  (open it in a browser; {beside})")
    for note in (note for run in runs for note in run.notes):
        print(f"skipped: {show_hidden(note)}")
    return 0


def _list_runs(as_json: bool) -> None:
    """One line per run: state, steps, scores; the newest last."""
    from agon.formatting import show_hidden, table
    from agon.report.overview import overview

    runs = overview(HERE)
    if as_json:
        print_json([asdict(one) for one in runs])
    elif not runs:
        print(f"no runs in {HERE}/; start one: agon train CONFIG, or: agon demo")
    else:
        head = ("run", "arm", "base", "state", "steps", "dev", "before training", "held-out")
        print(table(head, [tuple(map(show_hidden, astuple(one))) for one in runs]))


def _write_bouts(path: Path) -> list[tuple[str, str]]:
    """The viewer of a run that has bouts, for the page to link to; a link to the best conversion, if there is one."""
    from agon.report.rows import open_source
    from agon.report.viewer import write_viewer

    if not any((path / "bouts").glob("step_*.parquet")):
        return []
    best = write_viewer(open_source(path), path / "match.html").best
    return [] if best is None else [(f"match.html#{best}", "its best conversion")]


def links(stories: list[RunStory], page: Path, tables: Path) -> list[tuple[str, str]]:
    """Pages to open from the report, relative to it: the bouts of every run that has a viewer, and the tables."""

    def at(file: Path) -> str:
        return os.path.relpath(file, page.parent)

    matches = [(story, story.path / "match.html") for story in stories]
    shown = [(at(file), f"bouts of {story.path.name}") for story, file in matches if file.is_file()]
    return [*shown, (at(tables), "the paper's tables"), (at(tables.with_name("results.csv")), "CSV")]
