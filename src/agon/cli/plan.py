"""`agon plan`: resolve and validate a config, estimate its budget; nothing is started."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, json_argument, print_json, say_waiting
from agon.errors import AgonError

if TYPE_CHECKING:
    from agon.config import Config
    from agon.plan.budget import Cell, Section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    help = "lay the run out on a GPU: a name such as 4090, t4, h100, or its memory in GB (24 stands for a 4090)"
    parser.add_argument("--gpu", metavar="GPU", help=help)
    several = "how many of them, on one node (default: 1); of several the fastest layouts are named too"
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help=several)
    parser.add_argument("--price", metavar="USD", help="dollars per GPU and hour, for the cost of the run")
    measured = "a run on the hardware that is meant: scale its own seconds instead, such as of its first ten steps"
    parser.add_argument("--from", metavar="RUN", dest="run", help=measured)
    show = "print the config instead, with every value that the arm and the defaults fill in"
    parser.add_argument("--show", action="store_true", help=show)
    parser.add_argument("--full", action="store_true", help="budget, memory by part, time by part and all assumptions")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from agon.config import load_config, resolved
    from agon.plan.gpus import hardware_of

    config = load_config(args.config, args.overrides)
    if args.show:
        _show(config, args.json)
        return 0
    hardware = hardware_of(args.gpu, args.gpus, args.price)
    say_waiting(f"planning {args.config}")
    # after the config is known to be valid: these report mistakes
    from agon.engine.probe import old_driver
    from agon.plan.budget import Section, about_run, budget, check, count, summary
    from agon.plan.plan import plan_on

    counts, refusal, advice = check(config), None, list[Section]()
    sections = [about_run(config, counts), budget(config, counts)]
    other = _other_arm(args, config)
    column, beside = summary(config, counts), other and summary(other, count(other.data))
    verdict = f"{column['steps']:,} steps; hours, memory and price: name a GPU, such as --gpu 4090"
    if args.run:
        from agon.plan.measured import scaled

        verdict, measured = scaled(config, counts, args.run)
        advice.append(measured)
    if hardware:
        laid = plan_on(config, hardware, counts)
        verdict, column, refusal = laid.verdict, laid.column, laid.refusal
        sections, advice = [*sections, *laid.sections], [*advice, *laid.advice]
        if other:
            same = {"sampler": config.sampler, "train": config.train}  # the other arm in the same layout
            moved = other.model_copy(update=same)
            beside = plan_on(moved, hardware, count(other.data), advise=False).column
    arms = (config.arm, other.arm) if other else (config.arm,)
    cells = {label: (cell, *([beside.get(label, "does not fit")] if beside else [])) for label, cell in column.items()}
    compared = Section("side by side", cells, arms)
    if args.json:
        shown = {section.title: section.as_dict() for section in [*sections, compared, *advice]}
        print_json({"verdict": verdict, "plan": shown, "config": resolved(config)})
    else:
        short = [sections[0], compared, *advice]
        print("\n\n".join([verdict, *map(_table, [*short, *sections[1:]] if args.full else short)]))
        if not args.full:
            rest = "--full shows the budget, memory by part and assumptions"
            print("\n" + "\n".join([*_needs(sections[1:]), rest]))
        if error := old_driver():
            print(f"note: a run on this machine would not start: {error.message}")
    if refusal:
        raise refusal
    return 0


def _show(config: Config, as_json: bool) -> None:
    """The config with its files, overrides, arm and defaults merged; as YAML it loads again."""
    import yaml

    from agon.config import resolved

    values = resolved(config)
    if as_json:
        print_json(values)
    else:
        print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), end="")


def _other_arm(args: argparse.Namespace, config: Config) -> Config | None:
    """The same config under the arm to compare with: grpo, or agon for grpo itself; None where a rule forbids it."""
    from agon.config import load_config

    words = [word for word in args.overrides if not word.startswith("arm=")]
    try:
        return load_config(args.config, [*words, f"arm={'agon' if config.arm == 'grpo' else 'grpo'}"])
    except AgonError:
        return None


def _needs(sections: Sequence[Section]) -> list[str]:
    """What a reader must install, although it is in a table that is not shown."""
    return [f"needs: {section.rows['needs'][0]}" for section in sections if "needs" in section.rows]


def _table(section: Section) -> str:
    """The title, then the rows in aligned columns, numbers to the right."""
    rows = [(label, *map(_cell, cells)) for label, cells in section.rows.items()]
    if len(section.columns) == 1:
        width = max(len(row[0]) for row in rows)
        return "\n".join([section.title, *(f"  {label:<{width}}  {value}" for label, value in rows)])
    table = [("", *section.columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map("{:{}{}}".format, row, "<" + ">" * len(row), widths)).rstrip() for row in table]
    return "\n".join([section.title, *(f"  {line}" for line in lines)])


def _cell(value: Cell) -> str:
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
