"""`agon-judge`: the command line. A command is a module with HELP, `add_arguments` and `run(args) -> int`.

`agon` finds `audit` by its entry point, and shows it under its GROUP. Exit codes: 0 right; 1 not
right, or the machine failed; 2 bad input; 130 interrupted. Bad input is answered in two lines, what happened and what
to type, never with a traceback.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from agon_judge.errors import InputError, JudgeError

COMMANDS = ("audit", "math", "sandbox")
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except JudgeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.fix:
            print(f"fix: {error.fix}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # the reader has seen enough; without this the interpreter complains when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help"}:
        print(usage())
        return 0
    if words[0] in {"-V", "--version"}:
        from agon_judge import __version__

        print(f"agon-judge {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        known = ", ".join(f"agon-judge {command}" for command in COMMANDS)
        raise InputError(f"there is no command {name!r}", fix=f"type one of: {known}")
    module = import_module(f"agon_judge.cli.{name}")
    parser = Parser(prog=f"agon-judge {name}", description=f"{module.HELP[0].upper()}{module.HELP[1:]}.")
    module.add_arguments(parser)
    try:
        args = parser.parse_args(rest)
    except SystemExit:  # --help
        return 0
    code: int = module.run(args)
    return code


def usage() -> str:
    """The screen of `agon-judge --help`."""
    about = [f"  {name:<10}{import_module(f'agon_judge.cli.{name}').HELP}" for name in COMMANDS]
    lines = [
        "usage: agon-judge COMMAND [...]",
        "",
        "Is this answer right, and what does your reward pay for? Judges mathematics, programs and rewards.",
        "",
    ]
    more = "`agon-judge COMMAND --help` shows its options; `agon-judge --version` prints the version."
    return "\n".join([*lines, *about, "", more])


class Parser(argparse.ArgumentParser):
    """Bad arguments become an InputError, with the nearest option."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        from difflib import get_close_matches

        wrong = re.findall(r"--[\w-]+", message) if message.startswith("unrecognized") else []
        near = [match for word in wrong for match in get_close_matches(word, self._option_string_actions, n=1)]
        hint = f"did you mean {near[0]}? " if near else ""
        if message.endswith("expected one argument"):
            option = message.split()[1].rstrip(":")
            hint = f"write {option}=-x where the text begins with a minus sign; "
        raise InputError(f"{self.prog}: {message}", fix=f"{hint}`{self.prog} --help` lists its arguments")
