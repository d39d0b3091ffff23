"""`agon plan`: resolve and validate a config, estimate its budget; nothing is started."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, json_argument, print_json, say_waiting
from agon.errors import AgonError

if TYPE_CHECKING:
    from agon.config import Config
    from agon.plan.gpus import Node
    from agon.plan.plan_section import Cell, Section

TITLE = "side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    help = "lay the run out on a GPU: a name such as 4090, t4, h100, or its memory in GB (24 stands for a 4090)"
    parser.add_argument("--gpu", metavar="GPU", help=help)
    several = "how many of them, on one node (default: 1); of several the fastest layouts are named too"
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help=several)
    parser.add_argument("--price", metavar="USD", type=float, help="dollars per GPU and hour, for the cost of the run")
    parser.add_argument("--full", action="store_true", help="budget, memory by part, time by part and all assumptions")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from agon.config import load_config, resolved
    from agon.plan.gpus import hardware_of

    config = load_config(args.config, args.overrides)
    hardware = hardware_of(args.gpu, args.gpus, args.price)
    say_waiting(f"planning {args.config}")
    from agon.plan.estimate import check, plan, summary  # after the config is known to be valid: it reports mistakes

    counts, refusal, advice = check(config), None, list["Section"]()
    if hardware:
        from agon.plan.hardware import plan_on

        laid = plan_on(config, hardware, words=[args.config, *args.overrides])
        sections, refusal = [*plan(laid.config, counts, hardware.gpus), *laid.sections], laid.refusal
        advice = [*filter(None, [laid.layouts, laid.faster])]
        verdict, column, planned = laid.verdict, laid.summary, laid.config
    else:
        sections, column, planned = plan(config, counts), summary(config, counts), config
        verdict = f"{_cell(column['steps'])} steps; hours, memory and price: name a GPU, such as --gpu 4090"
    compared = _compared(planned, column, _other_arm(args, config), hardware)
    if args.json:
        shown = [*sections, compared, *advice]
        plan_ = {section.title: section.as_dict() for section in shown}
        print_json({"verdict": verdict, "plan": plan_, "config": resolved(config)})
    else:
        short = [sections[0], compared, *advice]
        tables = [*short, *sections[1:]] if args.full else short
        print("\n\n".join([verdict, *map(_table, tables)]))
        if not args.full:
            print(
                "\n" + "\n".join([*_warnings(sections[1:]), "--full shows the budget, memory by part and assumptions"])
            )
    if refusal:
        raise refusal
    return 0


def _other_arm(args: argparse.Namespace, config: Config) -> Config | None:
    """The same config under the arm to compare with: grpo, or agon for grpo itself; None where a rule forbids it."""
    from agon.config import load_config

    words = [word for word in args.overrides if not word.startswith("arm=")]
    try:
        return load_config(args.config, [*words, f"arm={'agon' if config.arm == 'grpo' else 'grpo'}"])
    except AgonError:
        return None


def _compared(config: Config, column: dict[str, Cell], other: Config | None, hardware: Node | None) -> Section:
    """The config beside the same one under the other arm."""
    from agon.plan.estimate import count, summary
    from agon.plan.plan_section import Section

    if other is None:
        return Section(TITLE, {label: (cell,) for label, cell in column.items()})
    if hardware:
        from agon.plan.hardware import plan_on

        same = {"sampler": config.sampler, "train": config.train}  # the other arm in the same layout
        beside = plan_on(other.model_copy(update=same), hardware, search=False).summary
    else:
        beside = summary(other, count(other.data))
    rows: dict[str, tuple[Cell, ...]] = {
        label: (cell, beside.get(label, "does not fit")) for label, cell in column.items()
    }
    return Section(TITLE, rows, (config.arm, other.arm))


def _warnings(sections: list[Section]) -> list[str]:
    """What a reader must know although it is in a table that is not shown."""
    found = [(label, cells) for section in sections for label, cells in section.rows.items()]
    return [f"{label}: {cells[0]}" for label, cells in found if label in ("warning", "needs")]


def _table(section: Section) -> str:
    """The title, then the rows in aligned columns; numbers to the right, commands to the left."""
    rows = [(label, *map(_cell, cells)) for label, cells in section.rows.items()]
    if len(section.columns) == 1:
        width = max(len(row[0]) for row in rows)
        return "\n".join([section.title, *(f"  {label:<{width}}  {value}" for label, value in rows)])
    table = [("", *section.columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ["<", *("<" if column == "command" else ">" for column in section.columns)]
    lines = ["  ".join(map("{:{}{}}".format, row, sides, widths)).rstrip() for row in table]
    return "\n".join([section.title, *(f"  {line}" for line in lines)])


def _cell(value: Cell) -> str:
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
