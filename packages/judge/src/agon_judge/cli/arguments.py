"""What the commands share: types of arguments, JSON, a line while one waits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any


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


def say_waiting(what: str) -> None:
    """Tell a person at once what the command is doing; a log file and a pipe get the results alone."""
    if sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)
