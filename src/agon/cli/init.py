"""`agon init`: write a commented config to start from. The recipes ship with the package."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from agon.cli.parser import say_waiting
from agon.errors import InputError

NEXT = {"custom": "put your problems into problems.jsonl, then: agon data check"}
"""What comes before the plan, of a recipe that cannot be planned as it is."""


def recipes() -> dict[str, str]:
    """Name and text of every recipe."""
    folder = files("agon") / "recipes"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): (folder / name).read_text(encoding="utf-8") for name in names}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="", help=" | ".join(recipes()))
    help = "with custom and --data: which column of the file is which, where its names do not say so"
    parser.add_argument("named", metavar="columns.FIELD=NAME", nargs="*", default=[], help=help)
    parser.add_argument("-o", "--out", metavar="FILE", help="file to write (default: RECIPE.yaml); - for stdout")
    data = "with custom: your problems, in JSONL, JSON, parquet or CSV; writes their path, columns, sizes and verifier"
    parser.add_argument("--data", metavar="FILE", type=Path, help=data)


def run(args: argparse.Namespace) -> int:
    text = _recipe(args.recipe)
    target = Path(args.out or f"{args.recipe}.yaml")
    if args.data and args.recipe != "custom":
        raise InputError(f"{args.recipe} has its own problems", fix=f"agon init custom --data {args.data}")
    named = _named(args.named)
    if args.data:
        text = with_data(text, args.data, Path() if args.out == "-" else target.parent, named)
    elif named:
        raise InputError(f"{args.named[0]} is a column of no file", fix="name the file too: --data FILE")
    if args.out == "-":
        print(text, end="")
        return 0
    _write(target, text)
    step = "agon data check" if args.data else NEXT.get(args.recipe, "agon plan")
    print(f"wrote {target}\nnext: {step} {target}")
    return 0


def _named(words: Sequence[str]) -> dict[str, str]:
    """`columns.question=frage` and so on, as a map."""
    for word in words:
        if not re.fullmatch(r"columns\.\w+=.+", word):
            raise InputError(f"{word} is not columns.FIELD=NAME", fix="such as columns.question=problem")
    return dict(word.removeprefix("columns.").split("=", 1) for word in words)


def with_data(recipe: str, data: Path, folder: Path, named: Mapping[str, str]) -> str:
    """The recipe with a file of problems: its path as seen from the config's folder, columns, sizes, verifier."""
    from agon.config.read import as_flow
    from agon.data.local import columns_of, guess_columns, read_file
    from agon.data.split import part_sizes

    say_waiting(f"reading {data}")
    if not (present := columns_of(data)):
        raise InputError(f"{data} has no rows that can be read", fix="name a file with problems")
    columns = {**guess_columns(present), **named}
    if "..." in columns.values():
        missing = " and ".join(ours for ours, theirs in columns.items() if theirs == "...")
        message = f"{data} has the columns {', '.join(present)}: none is named like the {missing} of a problem"
        words = " ".join(f"columns.{ours}=NAME" for ours, theirs in columns.items() if theirs == "...")
        raise InputError(message, fix=f"say which they are: agon init custom --data {data} {words}")
    count = len(read_file(str(data), columns).problems)
    if count < 3:
        raise InputError(f"{data} holds {count} problems: too few to split in three", fix="name a file with more")
    sizes = part_sizes(count)
    path = as_flow(os.path.relpath(data, folder))
    changes = {"path: problems.jsonl": f"path: {path}", "{question: question, answer: answer}": as_flow(columns)}
    changes |= {"take: 100": f"take: {sizes['dev']}", "take: 300": f"take: {sizes['held_out']}"}
    changes |= {"verifier: math ": "verifier: code "} if "tests" in columns else {}
    for old, new in changes.items():
        recipe = recipe.replace(old, new)
    return recipe


def _recipe(name: str) -> str:
    known = recipes()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        message = f"there is no recipe {name!r}" if name else "no recipe is named"
        raise InputError(message, fix=f"{hint}choose one of: {', '.join(known)}")
    return known[name]


def _write(target: Path, text: str) -> None:
    """Write a new file; one that exists is never overwritten."""
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{target} already exists", fix=f"name a different file: -o {_free(target)}") from None
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}", fix="name a different file with -o FILE") from None


def _free(target: Path) -> Path:
    """The first name like `target` that is not taken."""
    number = 2
    while (name := target.with_stem(f"{target.stem}-{number}")).exists():
        number += 1
    return name
