"""`agon-lens diagnose`: find reward terms that teach nothing and dead groups, in any GRPO log."""

from __future__ import annotations

import argparse
from pathlib import Path

from agon_lens.cli.arguments import column_arguments, columns_of, print_json, say_waiting, show_progress

HELP = "find reward terms that teach nothing and dead groups, in any GRPO log"
GROUP = "inspect"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, and the columns that are not recognised by name."""
    help = "a run directory, parquet or JSONL files, or folders of them"
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG", help=help)
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with plots over the steps")
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")
    column_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis of every stream in the log."""
    say_waiting(f"reading {args.logs[0]}")
    from agon_lens.diagnosis import diagnose
    from agon_lens.files import without_pages
    from agon_lens.lines import LogLines

    lines = LogLines(without_pages(args.logs), show_progress)
    found = diagnose(lines, columns_of(args), args.scale)
    if args.html:
        from agon_lens.diagnose_page import render_diagnoses
        from agon_lens.page import write_page_file

        write_page_file(args.html, render_diagnoses(found, lines.name))
    if args.json:
        print_json([diagnosis.json() for diagnosis in found])
    else:
        print(found)
    return 0
