"""What commands share: a parser that raises InputError, common arguments, and JSON on stdout."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
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

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`, but overrides may also follow an option."""
        args, rest = self.parse_known_args(argv)
        late = [word for word in rest if "=" in word and not word.startswith("-") and hasattr(args, "overrides")]
        if unknown := [word for word in rest if word not in late]:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        if late:
            args.overrides = [*args.overrides, *late]
        return args

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}", fix=f"`{self.prog} --help` lists its arguments")


def config_arguments(parser: argparse.ArgumentParser, about: str = "a YAML file") -> None:
    """CONFIG and its overrides."""
    parser.add_argument("config", metavar="CONFIG", help=about)
    help = "config values to set, read as YAML"
    parser.add_argument("overrides", metavar="section.key=value", nargs="*", default=[], help=help)


def json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
