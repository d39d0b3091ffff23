"""`agon-judge code`: does this program pass its tests, in a sandbox?"""

from __future__ import annotations

import argparse
from pathlib import Path

from agon_judge.cli.arguments import json_argument, print_verdict, sandbox_arguments, say_waiting
from agon_judge.errors import InputError

HELP = "judge a Python program by its tests, in the sandbox"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, its tests and the sandbox."""
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="a Python file")
    help = 'a JSON file: [["INPUT", "OUTPUT"], ...], or {"cases": [...], "time_limit": 2.0, ...}'
    parser.add_argument("--tests", type=Path, required=True, metavar="FILE", help=help)
    sandbox_arguments(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the program passes every test, else 1."""
    from agon_judge.code.judge import CodeJudge
    from agon_judge.sandbox.leaks import checked_sandbox
    from agon_judge.sandbox.settings import SandboxSettings
    from agon_judge.unit_tests import unit_tests

    program = _text(args.program)
    try:
        tests = unit_tests(_text(args.tests))
    except ValueError as error:
        raise InputError(f"{args.tests}: {error}", fix='write pairs: [["1 2", "3"], ["40 2", "42"]]') from error
    say_waiting("opening and probing the sandbox")
    settings = SandboxSettings(args.backend, args.memory, 2, args.url)
    with CodeJudge(checked_sandbox(settings)) as judge:
        return print_verdict(judge.judge(program, tests), args.json)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", fix="name a file that you can read") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8", fix=f"iconv -f latin1 -t utf-8 {path} > NEW_FILE") from error
