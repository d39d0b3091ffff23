"""`agon view`: bouts of a run, or groups of any GRPO log, side by side in one self-contained HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from agon.cli.parser import say_waiting
from agon.errors import InputError
from agon_lens.cli.arguments import column_arguments
from agon_lens.cli.view import print_page, write_log

NAMED = "name a run directory, a result of `agon eval` (.json), or a log: .parquet, .jsonl, or a folder of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    help = "a run directory, bouts, or a result of `agon eval`; or logs of TRL, verl and others: files, folders"
    parser.add_argument("sources", type=Path, nargs="+", metavar="RUN|RESULT|LOG", help=help)
    help = "where the page goes (default: a run's into the run, a result's beside it, a log's into the current folder)"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)
    parser.add_argument("--steps", metavar="FIRST:LAST", help="keep these steps only, of a run or log that is long")
    column_arguments(parser, texts=True)


def run(args: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    say_waiting(f"reading {args.sources[0]}")
    from agon_lens.files import is_foreign, without_pages

    sources = without_pages(args.sources)
    print_page(write_log(sources, args) if any(map(is_foreign, sources)) else _write_bouts(sources, args))
    return 0


def _write_bouts(sources: Sequence[Path], args: argparse.Namespace) -> Path:
    """Write the page of a run or a result into it; that of some steps does not replace that of all."""
    from agon.report.rows import open_source
    from agon.report.viewer import write_viewer
    from agon_lens.files import JSON_FILES
    from agon_lens.logs import StepRange

    odd = [path for path in sources if path.is_file() and path.suffix not in {".parquet", *JSON_FILES}]
    if odd:
        raise InputError(f"{odd[0]} is not a run, a result or a log", fix=NAMED)
    if len(sources) > 1:
        fix = "name one of them; for many runs: agon report RUN..."
        raise InputError("bouts of one run at a time can be shown", fix=fix)
    (source,), steps = sources, StepRange.parse(args.steps) if args.steps else None
    part = f"-{steps.name}" if steps else ""
    beside = source / f"match{part}.html" if source.is_dir() else source.with_name(f"{source.stem}{part}.html")
    return write_viewer(open_source(source, steps), args.out or beside).path
