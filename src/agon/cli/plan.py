"""`agon plan`: resolve and validate a config, estimate its budget; nothing is started."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, json_argument, print_json, say_waiting

if TYPE_CHECKING:
    from agon.plan.plan_section import Cell, Section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    help = "lay the run out on a GPU: a name such as 4090, a100, h100, or its memory in GB (24 stands for a 4090)"
    parser.add_argument("--gpu", metavar="GPU", help=help)
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help="how many of them, on one node (default: 1)")
    parser.add_argument("--price", metavar="USD", type=float, help="dollars per GPU and hour, for the cost of the run")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from agon.config import load_config, resolved
    from agon.plan.gpus import hardware_of

    config = load_config(args.config, args.overrides)
    hardware = hardware_of(args.gpu, args.gpus, args.price)
    say_waiting(f"planning {args.config}")
    from agon.plan.estimate import plan  # after the config is known to be valid: a mistake is reported sooner

    sections, refusal, verdict = plan(config), None, ""
    if hardware:
        from agon.plan.hardware import plan_on

        laid = plan_on(config, hardware)
        sections, refusal, verdict = [*sections, *laid.sections], laid.refusal, laid.verdict
    if args.json:
        print_json({"plan": {section.title: section.as_dict() for section in sections}, "config": resolved(config)})
    else:
        print("\n\n".join([*map(_table, sections), *filter(None, [verdict])]))
    if refusal:
        raise refusal
    return 0


def _table(section: Section) -> str:
    """The title, then the rows in aligned columns; numbers to the right."""
    rows = [(label, *map(_cell, cells)) for label, cells in section.rows.items()]
    if len(section.columns) == 1:
        width = max(len(row[0]) for row in rows)
        return "\n".join([section.title, *(f"  {label:<{width}}  {value}" for label, value in rows)])
    table = [("", *section.columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [f"  {row[0]:<{widths[0]}}  " + "  ".join(map(str.rjust, row[1:], widths[1:])) for row in table]
    return "\n".join([section.title, *lines])


def _cell(value: Cell) -> str:
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
