"""`agon init`: write a commented config to start from. The recipes ship with the package."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import say_waiting
from agon.errors import AgonError, InputError

if TYPE_CHECKING:
    from agon.config.from_trl import KnownFile

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
    parser.add_argument("--from-trl", metavar="FILE", help="convert a script, YAML file or command line of TRL")
    out = "file to write (default: RECIPE.yaml, or NAME-agon.yaml for a FILE of TRL); - for stdout"
    parser.add_argument("-o", "--out", metavar="FILE", help=out)
    data = "with custom: your problems, in JSONL, JSON, parquet or CSV; writes their path, columns, sizes and verifier"
    parser.add_argument("--data", metavar="FILE", type=Path, help=data)


def run(args: argparse.Namespace) -> int:
    if args.from_trl:
        return _convert(args)
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


def _convert(args: argparse.Namespace) -> int:
    from agon.config.from_trl import from_trl

    if args.recipe:
        raise InputError(f"--from-trl needs no recipe, and {args.recipe!r} is one", fix="leave one of them out")
    source = Path(args.from_trl)
    made = from_trl(source, _known_file)
    if args.out == "-":
        print(made.text, end="")
        return 0
    target = Path(args.out or f"{source.stem}-agon.yaml")
    _write(target, made.text)
    print(f"wrote {target}: {len(made.carried)} fields carried over")
    for name, why in made.left.items():
        print(f"  left out: {name}: {why}")
    change = 'change the lines marked "yours", then: ' if "# yours" in made.text else ""
    print(f"next: {change}agon data check {target}")
    return 0


def _known_file(file: str) -> KnownFile:
    """The columns of a local file by their names, and the sizes that its problems allow."""
    from agon.data.local import columns_of, guess_columns, read_file

    try:
        columns = guess_columns(columns_of(Path(file)))
        if "..." in columns.values():
            return {}, {}
        return columns, _sizes(len(read_file(file, columns).problems))
    except (AgonError, OSError):
        return {}, {}


def _sizes(count: int) -> dict[str, int]:
    """How many of so many problems dev and held-out take."""
    return {"dev": max(1, min(100, count // 10)), "held_out": max(1, min(300, count // 5))}


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
    sizes = _sizes(count)
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
