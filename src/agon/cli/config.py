"""`agon config`: show, explain and compare configs; nothing is run."""

from __future__ import annotations

import argparse
import json
from typing import Any

from agon.cli.parser import config_arguments, json_argument, print_json

SHOW = "Print every value of a config: files and overrides merged, the arm and the defaults filled in."
SCHEMA = "Print the JSON Schema of config files, for editors and other tools."
DIFF = "Print the keys in which two configs differ, after arms and defaults are filled in."
EXPLAIN = "Print what a key means, its default, the values it takes and the rules it obeys."


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
    explain = actions.add_parser("explain", help="explain a key and the values it takes", description=EXPLAIN)
    explain.add_argument("key", metavar="KEY", help="such as game.stack, or a section such as train")
    json_argument(explain)


def run(args: argparse.Namespace) -> int:
    return {"show": _show, "schema": _schema, "diff": _diff, "explain": _explain}[args.action](args)


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


def _explain(args: argparse.Namespace) -> int:
    from agon.config.explain import explain

    entries = [explain(key) for key in _keys(args.key)]
    if args.json:
        print_json(entries)
    else:
        print("\n\n".join(map(_prose, entries)))
    return 0


def _keys(word: str) -> list[str]:
    """A dotted key as it is, or every key that ends in the word."""
    from agon.config import Config
    from agon.config.explain import names, sections, suggest_key
    from agon.config.trl_names import trl_hint
    from agon.errors import InputError

    known = names()
    keys = [word] if word in known else [key for key in known if key.endswith(f".{word}")]
    if not keys:
        key = tuple(word.split("."))
        hint = trl_hint(key) or suggest_key(key).removeprefix("; ")
        listed = f"`agon config explain SECTION` lists the keys of one of: {', '.join(sections(Config))}"
        raise InputError(f"there is no config key {word!r}", fix=hint or listed)
    return keys


def _prose(entry: dict[str, Any]) -> str:
    lines = [entry["key"], f"  {entry['description']}"]
    lines += [f"  {name}: {entry[name]}" for name in ("type", "default") if name in entry]
    for name in ("values", "rules", "keys"):
        if entry.get(name):
            lines += [f"  {name}:", *(f"    {line}" for line in entry[name])]
    return "\n".join(lines)


def _columns(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
