"""`agon-judge audit`: what does a reward pay for?"""

from __future__ import annotations

import argparse
import ast
import math
from pathlib import Path
from typing import Any

from agon_judge.cli.arguments import json_argument, print_json, say_waiting, whole_number
from agon_judge.errors import InputError

HELP = "find out what a reward pays for, before you train on it"
GROUP = "prepare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The target, its rows, and what counts as a failure."""
    help = "FILE.py:function (TRL's signature), reasoning-gym:TASK, verifiers:MODULE, math, math-verify or code"
    parser.add_argument("target", metavar="TARGET", help=help)
    help = "rows for a reward function: JSONL, JSON or CSV with a question and a reference answer"
    parser.add_argument("--rows", type=Path, metavar="FILE", help=help)
    help = "rows to try (default: 8)"
    parser.add_argument("--take", type=whole_number(1, 10_000), default=8, metavar="N", help=help)
    parser.add_argument(
        "--gold", metavar="COLUMN", help="the column of reference answers (default: answer, solution, ...)"
    )
    help = "how a completion states its answer, such as '<answer>{}</answer>' (default: found out from the rows)"
    parser.add_argument("--template", metavar="TEXT", help=help)
    parser.add_argument("--chat", action="store_true", default=None, help="completions are lists of messages")
    help = "the reward pays for form, not for answers: paid wrong answers are no fault"
    parser.add_argument("--form", action="store_true", help=help)
    help = "CPU seconds that a call may take (default: 2)"
    parser.add_argument("--deadline", type=_positive, default=2.0, metavar="SECONDS", help=help)
    help = "exit with 1 when a fault is on more than this share of the rows (default: 0)"
    parser.add_argument("--bound", type=_share, default=0.0, metavar="SHARE", help=help)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of generated rows (default: 0)")
    help = "an option of the task or taskset; may be repeated"
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=help)
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when no fault is above the bound, else 1."""
    from agon_judge.auditing.report import page, table
    from agon_judge.auditing.run import audit

    if args.html and not args.html.absolute().parent.is_dir():
        raise InputError(f"there is no folder {args.html.parent}", fix="name a different --html FILE")
    say_waiting(f"auditing {args.target}")
    options = dict(_option(word) for word in args.option)
    names = ("take", "gold", "template", "chat", "form", "deadline", "bound", "seed")
    result = audit(args.target, args.rows, options=options, **{name: getattr(args, name) for name in names})
    if args.html:
        try:
            args.html.write_text(page(result), "utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError(
                f"cannot write {args.html}: {error.strerror}", fix="name a different --html FILE"
            ) from error
    if args.json:
        print_json(result.as_json())
    else:
        print(table(result))
    return 0 if result.passed else 1


def _option(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--option {word} is not NAME=VALUE", fix="such as --option min_terms=3")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"{text} is not a number between 0 and 3600")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
