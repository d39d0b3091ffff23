"""What commands share: a parser that raises InputError, common arguments, and JSON on stdout."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Container, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from agon.errors import InputError


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Options as `-o, --out FILE`, the same on every version of Python."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        default = self._get_default_metavar_for_optional(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, default)}"


class Parser(argparse.ArgumentParser):
    """Bad arguments become an InputError: two lines and exit code 2, like every other mistake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Formatter, allow_abbrev=False, **options)
        self._parsed: dict[str, Any] = {}

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`, but overrides, answers, or named columns may also follow an option."""
        args, rest = self.parse_known_args(argv)
        self._parsed = vars(args)
        name = next((name for name in ("answers", "named") if hasattr(args, name)), "overrides")
        late = [word for word in rest if not word.startswith("-") and hasattr(args, name)]
        if name != "answers":
            late = [word for word in late if "=" in word]
        if unknown := [word for word in rest if word not in late]:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        if late:
            setattr(args, name, [*getattr(args, name), *late])
        return args

    def error(self, message: str) -> NoReturn:
        raise InputError(
            f"{self.prog}: {message}", fix=f"{self._hint(message)}`{self.prog} --help` lists its arguments"
        )

    def _hint(self, message: str) -> str:
        """What to type for an unknown option, or what must be typed at least."""
        if message.startswith("unrecognized"):
            found = re.findall(r"(?<= )--([\w.-]+)(?:[ =]([^-\s]\S*))?", message)
            return next((hint for word, value in found if (hint := self._instead(word, value))), "")
        return f"type {self._shortest()}; " if "are required" in message else ""

    def _instead(self, word: str, value: str) -> str:
        """The argument or config key of that name, the nearest option, or the command that has it."""
        from agon.cli import commands

        if self.prog == "agon train" and word in ("gpus", "nproc", "nproc-per-node", "num-processes"):
            engines = int(value) - 1 if value.isdecimal() and int(value) > 1 else "N"
            return f"the learner has the first GPU; for the others write sampler.replicas={engines}; "
        if any((action.dest, action.option_strings, action.nargs) == (word, [], None) for action in self._actions):
            return f"type {self.prog} {self._parsed.get(word) or word.upper()}; "
        if any(action.dest == "overrides" for action in self._actions) and (key := _config_key(word, self.prog)):
            return f"write {key}={value or 'VALUE'}; "
        options = [name[2:] for action in self._actions for name in action.option_strings if name.startswith("--")]
        if near := get_close_matches(word, options, n=1):
            return f"did you mean --{near[0]}? "
        others = [name for group in commands()[0].values() for name in group if f"agon {name}" != self.prog]
        having = [name for name in others if f"--{word}" in _options(name)]
        return f"--{word} is an option of agon {' and agon '.join(having[:2])}; " if having else ""

    def _shortest(self) -> str:
        """The command with what it requires and nothing else."""
        needed = [action for action in self._actions if action.required and action.nargs != argparse.ZERO_OR_MORE]
        words = [f"{action.option_strings[-1]} {_values(action)}" for action in needed if action.option_strings]
        return " ".join([self.prog, *words, *(_values(action) for action in needed if not action.option_strings)])


def _options(command: str) -> Container[str]:
    """The options of a command; none where its package is broken, which `agon COMMAND` reports."""
    from agon.cli import parser_of

    try:
        return parser_of(command)._option_string_actions
    except (Exception, SystemExit):
        return ()


def _config_key(word: str, command: str) -> str | None:
    """The key of a config that an option is named after, by our name or by that of another trainer."""
    from agon.config.keys import names
    from agon.config.trl_names import KEYS, SHORT

    plain, known = word.replace("-", "_"), names()
    ours = (KEYS | SHORT).get(plain, plain).partition(" ")[0]
    values = [key for key in known if not any(other.startswith(f"{key}.") for other in known)]
    found = [key for key in values if key == ours or key.endswith(f".{ours}")]
    section = "eval." if command == "agon eval" else "train."
    return min(found, key=lambda key: not key.startswith(section)) if found else None


def _values(action: argparse.Action) -> str:
    """What stands for a value in the help."""
    chosen = "{" + ",".join(map(str, action.choices or ())) + "}" if action.choices else ""
    return str(action.metavar or chosen or action.dest.upper())


def whole_number(least: int, most: float = math.inf) -> Callable[[str], int]:
    """The type of an argument that is a whole number within bounds."""
    wanted = f"a whole number of at least {least}" if most == math.inf else f"a whole number from {least} to {most}"

    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        return int(text)

    return parse


def seconds(text: str) -> float:
    """The type of an argument that is a time."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return found


def config_arguments(parser: argparse.ArgumentParser, about: str = "a YAML file") -> None:
    """CONFIG and its overrides."""
    parser.add_argument("config", metavar="CONFIG", help=about)
    help = "config values to set, read as YAML"
    parser.add_argument("overrides", metavar="section.key=value", nargs="*", default=[], help=help)


def say_waiting(what: str) -> None:
    """Tell a person at once what the command is doing; a log file and a pipe get the results alone."""
    from agon.formatting import show_hidden

    if sys.stderr.isatty():
        print(f"{show_hidden(what)} ...", file=sys.stderr, flush=True)


def json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
