"""`agon config`: show and compare configs; nothing is run."""

from __future__ import annotations

import argparse
import json

from agon.cli.parser import config_arguments, json_argument, print_json

SHOW = "Print every value of a config: files and overrides merged, the arm and the defaults filled in."
SCHEMA = "Print the JSON Schema of config files, for editors and other tools."
DIFF = "Print the keys in which two configs differ, after arms and defaults are filled in."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print every value of a config, the arm's included", description=SHOW)
    config_arguments(show)
    show.add_argument("--origin", action="store_true", help="one key per line, with the place its value comes from")
    json_argument(show)
    actions.add_parser("schema", help="print the JSON Schema of config files", description=SCHEMA)
    compare = actions.add_parser("diff", help="print the keys in which two configs differ", description=DIFF)
    compare.add_argument("old", metavar="CONFIG", help="a YAML file")
    compare.add_argument("new", metavar="OTHER", help="the YAML file to compare it with")
    json_argument(compare)


def run(args: argparse.Namespace) -> int:
    return {"show": _show, "schema": _schema, "diff": _diff}[args.action](args)


def _show(args: argparse.Namespace) -> int:
    from agon.config import flat, resolved
    from agon.config.validate import load_with_origins

    config, origins = load_with_origins(args.config, args.overrides)
    values = resolved(config)
    if args.json:
        print_json({"config": values, "origin": origins} if args.origin else values)
    elif args.origin:
        _columns([(key, json.dumps(value), origins[key]) for key, value in flat(values).items()])
    else:
        import yaml

        print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), end="")
    return 0


def _schema(args: argparse.Namespace) -> int:
    from agon.config import json_schema

    print_json(json_schema())
    return 0


def _diff(args: argparse.Namespace) -> int:
    from agon.config import diff, flat, load_config, resolved

    old, new = load_config(args.old), load_config(args.new)
    before, after = flat(resolved(old)), flat(resolved(new))
    changed = {key: (before.get(key), after.get(key)) for key in diff(old, new)}
    if args.json:
        print_json({key: {"old": a, "new": b} for key, (a, b) in changed.items()})
    elif not changed:
        print("the two configs are equal")
    else:
        _columns([("", args.old, args.new), *((key, json.dumps(a), json.dumps(b)) for key, (a, b) in changed.items())])
    return 0


def _columns(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
