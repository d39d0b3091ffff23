"""What the commands share: options that name the columns of a log, JSON on stdout, a line while one waits."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from agon_lens.errors import LensError
from agon_lens.formatting import show_hidden

if TYPE_CHECKING:
    from agon_lens import Columns

REWARDS = ("total", "correct", "truncated", "opponent")
TEXTS = ("prompt", "completion", "gold")


def column_arguments(parser: argparse.ArgumentParser, texts: bool = False) -> None:
    """Columns that are not recognised by name; with `texts`, also those that are read and not counted."""
    group = parser.add_argument_group("columns of a log, where they are not recognised")
    group.add_argument("--group", metavar="COLS", help="columns that name a group: step,problem_id")
    group.add_argument("--terms", metavar="COLS", help="reward columns: correctness,format")
    group.add_argument("--weights", metavar="W", help="weights of terms logged without them: format=0.5")
    group.add_argument("--total", metavar="COL", help="the reward that was normalised (default: the sum of the terms)")
    group.add_argument("--correct", metavar="COL", help="whether the answer was right")
    group.add_argument("--truncated", metavar="COL", help="whether the completion was truncated")
    if texts:
        for name in TEXTS:
            group.add_argument(f"--{name}", metavar="COL", help=f"the text of the {name}")
    else:
        group.add_argument("--opponent", metavar="COL", help="the opponent's outcome, for rewards that depend on one")
    group.add_argument("--scale", choices=("group", "none"), help="TRL's scale_rewards (default: from the log)")


def columns_of(args: argparse.Namespace) -> Columns | None:
    """The columns named on the command line; None when none is."""
    from agon_lens import Columns

    named = Columns(
        group=_list(args.group),
        terms=_list(args.terms),
        weights=_weights(args.weights),
        **{name: getattr(args, name) for name in (*REWARDS, *TEXTS) if hasattr(args, name)},
    )
    return named if named.names() else None


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _weights(text: str | None) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in (word.split("=") for word in _list(text))}
    except ValueError as error:
        raise LensError(f"cannot parse --weights {text}", fix="write --weights format=0.5,length=0.1") from error


def say_waiting(what: str) -> None:
    """Tell a person at once what the command is doing; a log file and a pipe get the results alone."""
    if sys.stderr.isatty():
        print(f"{show_hidden(what)} ...", file=sys.stderr, flush=True)


def show_progress(done: int, total: int) -> None:
    """How much of a large log was read, on the line of a person at a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rread {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", end=end, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
