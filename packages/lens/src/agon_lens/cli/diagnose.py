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
    from agon_lens.findings import findings, summary
    from agon_lens.lines import LogLines, without_pages
    from agon_lens.logs import read

    logs = without_pages(args.logs)
    columns = columns_of(args)
    lines = LogLines(logs, show_progress)
    streams = read(lines, columns)
    diagnoses = [diagnose(log, args.scale) for log in streams]
    if args.html:
        from agon_lens.diagnose_page import write_diagnose_page
        from agon_lens.examples import read_examples

        (one, *more), (first, *_) = streams, diagnoses
        examples = {} if more or one.correctness else read_examples(lines, columns, one, findings(first))
        write_diagnose_page(diagnoses, args.html, logs[0].name, examples)
    if args.json:
        found = [[finding.json() for finding in findings(diagnosis)] for diagnosis in diagnoses]
        print_json([diagnosis.json() | {"findings": each} for diagnosis, each in zip(diagnoses, found, strict=True)])
    else:
        print("\n\n".join("\n".join(summary(diagnosis)) for diagnosis in diagnoses))
    return 0
