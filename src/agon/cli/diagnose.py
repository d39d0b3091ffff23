"""`agon diagnose`: find reward terms that teach nothing and dead groups, in any GRPO log."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.diagnose import Columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, and the columns that are not recognised by name."""
    help = "a run directory, parquet or JSONL files, or folders of them"
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG", help=help)
    parser.add_argument("--group", metavar="COLS", help="columns that name a group: step,problem_id")
    parser.add_argument("--terms", metavar="COLS", help="reward columns: correctness,format")
    parser.add_argument("--weights", metavar="W", help="weights of terms logged without them: format=0.5")
    parser.add_argument("--total", metavar="COL", help="the reward that was normalised (default: the sum of the terms)")
    parser.add_argument("--correct", metavar="COL", help="whether the answer was right")
    parser.add_argument("--truncated", metavar="COL", help="whether the completion was truncated")
    parser.add_argument("--opponent", metavar="COL", help="the opponent's outcome, for rewards that depend on one")
    parser.add_argument("--scale", choices=("group", "none"), help="TRL's scale_rewards (default: from the log)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with plots over the steps")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis of every stream in the log."""
    say_waiting(f"reading {args.logs[0]}")
    from agon.diagnose import diagnose, read
    from agon.diagnose.findings import findings, summary

    diagnoses = [diagnose(log, args.scale) for log in read(args.logs, columns(args))]
    if args.html:
        from agon.report.diagnose_page import write_diagnose_page

        write_diagnose_page(diagnoses, args.html, args.logs[0].name)
    if args.json:
        print_json([diagnosis.json() | {"findings": findings(diagnosis)} for diagnosis in diagnoses])
    else:
        print("\n\n".join("\n".join(summary(diagnosis)) for diagnosis in diagnoses))
    return 0


def columns(args: argparse.Namespace) -> Columns | None:
    """The columns named on the command line; None when none is."""
    from agon.diagnose import Columns

    named = Columns(
        group=_list(args.group),
        terms=_list(args.terms),
        weights=_weights(args.weights),
        **{name: getattr(args, name) for name in ("total", "correct", "truncated", "opponent")},
    )
    return named if named.names() else None


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _weights(text: str | None) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in (word.split("=") for word in _list(text))}
    except ValueError as error:
        raise InputError(f"cannot parse --weights {text}", fix="write --weights format=0.5,length=0.1") from error
