"""What the commands share: options of a sandbox, a verdict in one line or as JSON, a line while one waits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

from agon_judge.sandbox.execution import Memory
from agon_judge.sandbox.settings import BackendName
from agon_judge.verdict import Verdict, printable

BACKENDS: tuple[str, ...] = get_args(BackendName)


def sandbox_arguments(parser: argparse.ArgumentParser, backends: Sequence[str] = BACKENDS) -> None:
    """Which sandbox to open."""
    parser.add_argument("--backend", choices=backends, default="bwrap", help="see docs/sandbox.md (default: bwrap)")
    help = "cgroup bounds a whole program (default); per_process each of its processes"
    parser.add_argument("--memory", choices=get_args(Memory), default="cgroup", help=help)
    if "http" in backends:
        parser.add_argument("--url", metavar="URL", help="the service of backend http")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number within bounds."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse


def json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")


def print_json(value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print(text.encode(errors="backslashreplace").decode())  # a lone surrogate, as JSON escapes it


def print_verdict(verdict: Verdict, as_json: bool) -> int:
    """Print a verdict and return the exit code: 0 only for a right answer."""
    if as_json:
        names = ("correct", "graded", "suspicious", "reason", "detail")
        print_json({name: getattr(verdict, name) for name in names})
    else:
        word = "right" if verdict.correct else "wrong" if verdict.graded else "no verdict"
        detail = f": {printable(verdict.detail)}" if verdict.detail else ""
        print(f"{word:<10} {verdict.reason}{detail}")
    return 0 if verdict.correct else 1


def say_waiting(what: str) -> None:
    """Tell a person at once what the command is doing; a log file and a pipe get the results alone."""
    if sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)
