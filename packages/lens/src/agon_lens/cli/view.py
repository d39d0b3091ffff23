"""`agon-lens view`: the groups of any GRPO log side by side, in one self-contained HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from agon_lens.cli.arguments import column_arguments, columns_of, say_waiting, show_progress
from agon_lens.formatting import show_hidden

HELP = "show the groups of any GRPO log side by side, in one HTML file"
GROUP = "inspect"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and where to write it."""
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG", help="parquet or JSONL files, or folders of them")
    help = "where the page goes (default: the current folder)"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)
    parser.add_argument("--steps", metavar="FIRST:LAST", help="keep these steps only, of a log that is long")
    column_arguments(parser, texts=True)


def run(args: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    from agon_lens.files import without_pages

    say_waiting(f"reading {args.logs[0]}")
    print_page(write_log(without_pages(args.logs), args))
    return 0


def write_log(logs: Sequence[Path], args: argparse.Namespace) -> Path:
    """Write the page of logs. By default it goes into the current folder, since others read the folder of a log."""
    from agon_lens.log_viewer import view
    from agon_lens.logs import StepRange

    steps = StepRange.parse(args.steps) if args.steps else None
    name = "rollouts" if len(logs) > 1 or logs[0].is_dir() else logs[0].stem
    out = args.out or Path(f"{name}{f'-{steps.name}' if steps else ''}.html")
    return view(logs, out, columns_of(args), steps=steps, scale=args.scale, progress=show_progress)


def print_page(path: Path) -> None:
    """Where a page is."""
    size = path.stat().st_size / 1e6
    print(f"{show_hidden(str(path))}  ({size:.1f} MB; open it in a browser, it needs no network)")
